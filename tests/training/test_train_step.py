"""The training step by itself."""

import numpy as np
import pytest
import tensorflow as tf

import optimization
from training import train_step


class _Width(tf.Module):
    """A task whose metric is the width of what it is given; its loss counts the real tokens."""

    loss_parts = {"loss": 0.0}
    metrics = ("loss", "width")
    without_gradient = ()

    def __init__(self):
        super().__init__()
        self.model = tf.Module()
        self.factor = tf.Variable(1.0, name="factor")

    def weights(self, batch):
        return {"loss": tf.constant(1.0)}

    def sums(self, batch, *, training, seed=None):
        tokens = tf.reduce_sum(tf.cast(batch["input_mask"] * batch["input_ids"], tf.float32))
        width = tf.cast(tf.shape(batch["input_ids"])[1], tf.float32)
        return {"loss": (self.factor * tokens, 1.0), "width": (width, 1.0)}


@pytest.mark.parametrize(
    ("parts", "static", "wanted"), [(1, False, 7), (2, False, 7 + 3), (4, False, 7 + 4 + 3 + 1),
                                    (2, True, 7 + 7)],
)  # fmt: skip
def test_parts_are_padded_to_their_own_longest_row(parts, static, wanted):
    mask = (np.arange(7) < np.array([7, 4, 3, 0])[:, None]).astype(np.int32)
    batch = {"input_ids": 2 * mask, "input_mask": mask, "segment_ids": 0 * mask}
    spec = {name: tf.TensorSpec([4, 7 if static else None], tf.int32) for name in batch}
    dataset = tf.data.Dataset.from_generator(lambda: iter([batch]), output_signature=spec)
    task = _Width()
    train = train_step.TrainStep(
        task,
        {"factor": task.factor},
        tf.Variable(0, dtype=tf.int64, trainable=False),
        tf.distribute.get_strategy(),
        train_step.StepConfig(optimization.Schedule(1e-3, 10), accumulation=parts),
    )
    done = train.run(iter(dataset), tf.constant(1))
    np.testing.assert_array_equal(done.sums, [2 * 14, wanted])
    np.testing.assert_array_equal(done.norm, 2 * 14)
    np.testing.assert_array_equal(done.tokens, 14)
