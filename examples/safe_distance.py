"""The distance of two points, which may be the same point.

TensorFlow's eager mode computes a zero for the square root at 0, so `distance` looks safe until the program is
compiled with XLA: then its gradient is nan. The quotient of `inverse` is nan in both modes.
"""

import tensorflow as tf


def distance(x, y):
    squared = tf.reduce_sum((x - y) ** 2)
    return tf.where(squared > 0, tf.sqrt(squared), 0.0)


def inverse(squared):
    return tf.where(squared > 0, 1.0 / squared, 0.0)


def distance_safe(x, y):
    squared = tf.reduce_sum((x - y) ** 2)
    apart = squared > 0
    return tf.where(apart, tf.sqrt(tf.where(apart, squared, 1.0)), 0.0)


def inverse_safe(squared):
    apart = squared > 0
    return tf.where(apart, 1.0 / tf.where(apart, squared, 1.0), 0.0)
