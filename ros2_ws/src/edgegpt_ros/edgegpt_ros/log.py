"""What edgegpt logs, in the node's own log."""

import logging

from rclpy.impl.rcutils_logger import RcutilsLogger

from edgegpt.errors import first_line


class NodeLog(logging.Handler):
    """Hands the records of Python's logger `edgegpt` on to a node's logger, each as one line.

    The traceback of an exception goes to the level debug.
    """

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self._logger = logger
        logging.getLogger("edgegpt").addHandler(self)

    def close(self) -> None:
        """Hand on no more."""
        logging.getLogger("edgegpt").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record."""
        try:
            sentence = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                sentence += f": {first_line(record.exc_info[1])}"
                self._logger.debug(logging.Formatter().formatException(record.exc_info))
            # rclpy ties the level to the line that logs.
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
