"""Helpers of the ROS tests: processes, peers, and the programs that tests start."""
