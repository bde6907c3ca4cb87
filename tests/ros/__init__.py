"""Tests of the ROS 2 workspace, run by .venv-ros: `make test`, or `ros2_ws/run -- pytest tests/ros`."""
