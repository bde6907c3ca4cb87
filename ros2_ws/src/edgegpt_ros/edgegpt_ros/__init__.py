"""edgegpt for ROS 2: a lifecycle node that answers prompts, and a client for other nodes."""
