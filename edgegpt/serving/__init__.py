"""One engine thread for many clients: scheduler, requests, sessions, statistics."""
