"""wherelint in a running TensorFlow program: `locate`."""

from wherelint.tensorflow.locate import locate

__all__ = ["locate"]
