# What `make ros` built, for this shell (bash): `. ros2_ws/env.sh`. With apt's ROS 2, source
# /opt/ros/jazzy/setup.bash and install/local_setup.bash instead.
_edgegpt_ws="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if [ -f "$_edgegpt_ws/../.venv-ros/bin/activate" ] && [ -f "$_edgegpt_ws/install/local_setup.bash" ]; then
  . "$_edgegpt_ws/../.venv-ros/bin/activate"
  export AMENT_PREFIX_PATH="$VIRTUAL_ENV"  # and no other ROS of this machine
  unset PYTHONPATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE
  . "$_edgegpt_ws/install/local_setup.bash"
else
  echo "The ROS 2 workspace is not built; run: make ros" >&2
fi
unset _edgegpt_ws
