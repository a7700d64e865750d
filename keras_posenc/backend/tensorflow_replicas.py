"""TensorFlow: what the replicas of a `tf.distribute` strategy compute together."""

import tensorflow as tf


def row_multiple():
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(x):
    context = tf.distribute.get_replica_context()
    # Outside of a replica, variables of metrics are the sums already.
    if context is None or context.num_replicas_in_sync == 1:
        return x
    return context.all_reduce("sum", tf.convert_to_tensor(x))


def gather_rows(x):
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return x, 0
    x = tf.convert_to_tensor(x)
    sizes = context.all_gather(tf.shape(x)[:1], axis=0)
    first = tf.reduce_sum(sizes[: context.replica_id_in_sync_group])
    rows = context.all_gather(x, axis=0)
    rows.set_shape((None, *x.shape[1:]))  # it forgets them
    return rows, first
