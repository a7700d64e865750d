"""TensorFlow: what the replicas of a `tf.distribute` strategy compute together."""

import keras
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


def weigh_loss(value, loss, y_pred, sample_weight):
    """A loss on this replica, times R W_r / (sum of W_r), where it is a mean; W_r are the weights.

    `value`: scalar, or None. `loss`: what the model was compiled with. `y_pred`: the outputs.
    `sample_weight`: weights of the rows, or of their tokens; or None.
    """
    context = tf.distribute.get_replica_context()
    reduction = getattr(loss, "reduction", "sum_over_batch_size")
    is_mean = reduction in ("mean", "mean_with_sample_weight", "sum_over_batch_size")
    alone = context is None or context.num_replicas_in_sync == 1
    if value is None or alone or not is_mean or isinstance(loss, (dict, list, tuple)):
        return value
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        part = tf.reduce_sum(tf.cast(sample_weight, value.dtype))
    else:
        part = tf.cast(tf.shape(keras.tree.flatten(y_pred)[0])[0], value.dtype)
    whole = context.all_reduce("sum", part)
    return value * tf.math.divide_no_nan(context.num_replicas_in_sync * part, whole)
