"""Forward edgegpt's log records to the log of a ROS node."""

import logging

from rclpy.impl.rcutils_logger import RcutilsLogger

from edgegpt.errors import first_line


class NodeLog(logging.Handler):
    """Forwards the records of Python's logger `edgegpt` to a node's logger, each as one line.

    The traceback of an exception is logged at level debug.
    """

    def __init__(self, logger: RcutilsLogger) -> None:
        """Begin to forward."""
        super().__init__()
        self._logger = logger
        logging.getLogger("edgegpt").addHandler(self)

    def close(self) -> None:
        """Stop forwarding."""
        logging.getLogger("edgegpt").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record."""
        try:
            sentence = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                sentence += f": {first_line(record.exc_info[1])}"
                self._logger.debug(logging.Formatter().formatException(record.exc_info))
            # One line of code per level: rclpy refuses a second level from the same line.
            if record.levelno >= logging.ERROR:
                self._logger.error(sentence)
            elif record.levelno >= logging.WARNING:
                self._logger.warning(sentence)
            elif record.levelno >= logging.INFO:
                self._logger.info(sentence)
            else:
                self._logger.debug(sentence)
        except Exception:
            self.handleError(record)
