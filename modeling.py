"""BERT: configuration, encoder and pre-training heads.

Variables carry the names of the original release's checkpoints: ``variable.name`` without ``:0`` is
the checkpoint name, there is no mapping table.

Axes, as used in every shape below:
  B  examples in a batch          F  padded sequence length      N  real tokens of the batch
  H  hidden size                  A  attention heads             D  width of a head, H / A
  I  intermediate size            V  vocabulary                  P  most positions
  T  token types                  L  layers                      M  predictions per example
  Q  wanted positions per example

Token-wise work (projections, feed-forward, layer norm, dropout) runs on the flat ``[N, H]`` matrix
of real tokens; only the attention product is laid out ``[B, A, F, F]``. With ``static_shapes``
every position counts as real, N = B * F, and all shapes are fixed, which XLA and TPUs need.

Source: Devlin et al. 2018, arXiv 1810.04805; Vaswani et al. 2017, arXiv 1706.03762.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from command_line import errors
from nn import functions, layers, lstm, padding

_log = logging.getLogger(__name__)


ATTENTION_KINDS = ("bidirectional", "left_to_right")


# Added to the attention score of a hidden key. Large enough to vanish in the softmax, small enough
# for float16, and the constant that released models were trained with.
_HIDDEN_KEY = -10000.0


# --------------------------------------------------------------------------------------------------
# Configuration
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes of a model; what ``bert_config.json`` holds.

    Attributes:
      vocab_size: rows of the word table.
      hidden_size: H; a multiple of num_attention_heads.
      num_hidden_layers: L.
      num_attention_heads: A.
      intermediate_size: I, width of the feed-forward layer.
      hidden_act: "gelu" (tanh form), "relu", "tanh" or "linear".
      hidden_dropout_prob: dropout of embeddings and of each sub-layer's output, in [0, 1).
      attention_probs_dropout_prob: dropout of attention probabilities, in [0, 1).
      max_position_embeddings: P, the longest sequence.
      type_vocab_size: T.
      initializer_range: standard deviation of the truncated normal initial weights.
      attention: "bidirectional", or "left_to_right" where a token sees itself and what stands
        before it (paper section 5.1). Written to JSON only when left_to_right.
      extra: keys of the file that the model does not use.

    Raises:
      errors.UserError: a value of the wrong type, or sizes that do not fit each other.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02
    attention: str = "bidirectional"
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not _is_number(value, whole=True) or value < 1):
                raise errors.UserError(f"{field.name} is {value!r}, expected a whole number >= 1")
            if field.type == "float" and (not _is_number(value) or not 0 <= value < 1):
                raise errors.UserError(f"{field.name} is {value!r}, expected a number in [0, 1)")
        functions.activation(self.hidden_act)
        if self.attention not in ATTENTION_KINDS:
            raise errors.UserError(
                f"attention is {self.attention!r}, expected one of {', '.join(ATTENTION_KINDS)}"
            )
        if self.hidden_size % self.num_attention_heads:
            raise errors.UserError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BertConfig:
        """Builds a config; keys that it does not know are kept in ``extra`` with one warning."""
        known = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        if "vocab_size" not in values:
            raise errors.UserError("vocab_size is missing")
        extra = {key: value for key, value in values.items() if key not in known}
        if extra:
            _log.warning("bert config: keys not used by the model: %s", ", ".join(sorted(extra)))
        return cls(**{key: values[key] for key in known & values.keys()}, extra=extra)

    @classmethod
    def from_json_file(cls, path: str, flag: str = "--bert_config_file") -> BertConfig:
        """Reads ``bert_config.json``; local paths and those of tf.io.gfile."""
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                values = json.loads(file.read().decode("utf-8-sig"))
        except tf.errors.OpError as error:
            why = error.message.removeprefix(f"{path}; ")
            raise errors.UserError(f"{flag}={path}: cannot be read: {why}") from None
        except (ValueError, RecursionError) as error:
            raise errors.UserError(f"{flag}={path}: not a JSON file: {error}") from None
        if not isinstance(values, dict):
            raise errors.UserError(
                f"{flag}={path}: expected a JSON object with vocab_size and so on"
            )
        try:
            return cls.from_dict(values)
        except errors.UserError as error:
            raise errors.UserError(f"{flag}={path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        extra = values.pop("extra")
        if self.attention == "bidirectional":
            del values["attention"]
        return {**extra, **values}

    def to_json_string(self) -> str:
        """The file's form: two-space indent, sorted keys, final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def _is_number(value: Any, whole: bool = False) -> bool:
    kinds = (int,) if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


def attention_bias(input_mask: tf.Tensor, kind: str) -> tf.Tensor:
    """What is added to attention scores: 0 for a visible key, -10000 for a hidden one.

    Args:
      input_mask: int32 [B, F]; keys with mask 0 are hidden from every query.
      kind: "bidirectional", or "left_to_right", where keys after the query are hidden too.

    Returns:
      float32 [B, 1, 1, F], or [B, 1, F, F] for left_to_right.
    """
    bias = (1.0 - tf.cast(input_mask, tf.float32))[:, None, None, :] * _HIDDEN_KEY
    if kind == "bidirectional":
        return bias
    place = tf.range(tf.shape(input_mask)[1])
    later = tf.cast(place[None, :] > place[:, None], tf.float32)  # [F, F]
    return bias + later * _HIDDEN_KEY


class TransformerLayer(tf.Module):
    """Self-attention and feed-forward, each followed by add and norm (post-norm)."""

    DROPOUTS = 3

    def __init__(self, config: BertConfig, weights: layers.Initializer, name: str):
        super().__init__(name=name)
        self._config = config
        hidden = config.hidden_size
        with self.name_scope:
            with tf.name_scope("attention"):
                with tf.name_scope("self"):
                    self.query = layers.Dense(hidden, hidden, weights, "query")
                    self.key = layers.Dense(hidden, hidden, weights, "key")
                    self.value = layers.Dense(hidden, hidden, weights, "value")
                with tf.name_scope("output"):
                    self.attention_dense = layers.Dense(hidden, hidden, weights)
                    self.attention_norm = layers.LayerNorm(hidden, weights)
            with tf.name_scope("intermediate"):
                self.intermediate_dense = layers.Dense(hidden, config.intermediate_size, weights)
            with tf.name_scope("output"):
                self.output_dense = layers.Dense(config.intermediate_size, hidden, weights)
                self.output_norm = layers.LayerNorm(hidden, weights)
        self._activation = functions.activation(config.hidden_act)

    def __call__(
        self,
        x: tf.Tensor,  # [N, H]
        layout: padding.TokenLayout,
        bias: tf.Tensor,  # float32 [B, 1, 1 or F, F]
        seeds: tf.Tensor | None,  # int32 [3, 2]; None: no dropout
        positions: tf.Tensor | None = None,  # int32 [B, Q]; None: all tokens are wanted
    ) -> tf.Tensor:  # [N, H], or [B * Q, H] of the wanted positions
        wanted = x if positions is None else layout.pick(x, positions)
        context = self._attend(wanted, x, layout, bias, seeds, positions)
        context = self._drop(self.attention_dense(context), seeds, 1)
        x = self.attention_norm(context + wanted)
        inner = self._activation(self.intermediate_dense(x))
        return self.output_norm(self._drop(self.output_dense(inner), seeds, 2) + x)

    def _attend(
        self,
        wanted: tf.Tensor,
        x: tf.Tensor,
        layout: padding.TokenLayout,
        bias: tf.Tensor,
        seeds: tf.Tensor | None,
        positions: tf.Tensor | None,
    ) -> tf.Tensor:
        heads = self._config.num_attention_heads
        width = self._config.hidden_size // heads

        def split(padded: tf.Tensor, length: Any) -> tf.Tensor:  # queries or keys of each row
            shape = tf.stack([layout.batch, length, heads, width])
            return tf.transpose(tf.reshape(padded, shape), [0, 2, 1, 3])  # [B, A, length, D]

        query = self.query(wanted) * tf.cast(width**-0.5, x.dtype)
        if positions is None:
            query = split(layout.pad(query), layout.length)
        else:
            query = split(query, padding.dimensions(positions)[1])
            if bias.shape[2] != 1:
                bias = tf.gather(bias[:, 0], positions, batch_dims=1)[:, None]  # [B, 1, Q, F]
        key = split(layout.pad(self.key(x)), layout.length)
        scores = tf.matmul(query, key, transpose_b=True)  # [B, A, F or Q, F]
        shares = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
        if seeds is not None:
            shares = functions.dropout(shares, self._config.attention_probs_dropout_prob, seeds[0])
        value = split(layout.pad(self.value(x)), layout.length)
        context = tf.matmul(tf.cast(shares, x.dtype), value)  # [B, A, F or Q, D]
        context = tf.transpose(context, [0, 2, 1, 3])
        if positions is not None:
            return tf.reshape(context, [-1, self._config.hidden_size])
        shape = tf.stack([layout.batch, layout.length, self._config.hidden_size])
        context = tf.reshape(context, shape)
        context.set_shape([None, None, self._config.hidden_size])
        return layout.unpad(context)

    def _drop(self, x: tf.Tensor, seeds: tf.Tensor | None, index: int) -> tf.Tensor:
        return (
            x
            if seeds is None
            else functions.dropout(x, self._config.hidden_dropout_prob, seeds[index])
        )


class Embeddings(tf.Module):
    """Word + token type + position, then norm and dropout."""

    def __init__(self, config: BertConfig, weights: layers.Initializer):
        super().__init__(name="embeddings")
        self._config = config
        hidden = config.hidden_size
        with self.name_scope:
            self.word = weights.normal("word_embeddings", [config.vocab_size, hidden])
            self.token_type = weights.normal(
                "token_type_embeddings", [config.type_vocab_size, hidden]
            )
            self.position = weights.normal(
                "position_embeddings", [config.max_position_embeddings, hidden]
            )
            self.norm = layers.LayerNorm(hidden, weights)

    def __call__(
        self,
        ids: tf.Tensor,  # int32 [N]
        types: tf.Tensor,  # int32 [N]
        columns: tf.Tensor,  # int32 [N]
        seed: tf.Tensor | None,  # int32 [2]
    ) -> tf.Tensor:  # float32 [N, H]
        total = tf.gather(self.word, ids)
        # Small tables by a product: the gradient of a gather with few distinct rows is slow.
        total += tf.matmul(tf.one_hot(types, self._config.type_vocab_size), self.token_type)
        total += tf.gather(self.position, columns)
        total = self.norm(total)
        return (
            total
            if seed is None
            else functions.dropout(total, self._config.hidden_dropout_prob, seed)
        )


# --------------------------------------------------------------------------------------------------
# Models
# --------------------------------------------------------------------------------------------------


class BertOutput(NamedTuple):
    """What the encoder computes. In padding-free execution padding positions are 0."""

    embedding_output: tf.Tensor  # float32 [B, F, H]
    all_encoder_layers: list[tf.Tensor]  # L times float32 [B, F, H]
    sequence_output: tf.Tensor  # float32 [B, F, H], the last layer
    pooled_output: tf.Tensor  # float32 [B, H]


class BertModel(tf.Module):
    """The encoder with its pooler.

    Args:
      config: sizes.
      compute_dtype: dtype of the matrix products; variables, norms and softmax are float32.
      static_shapes: compute padding too, so that all shapes are fixed.
      seed: of the initial weights.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        compute_dtype: tf.DType = tf.float32,
        static_shapes: bool = False,
        seed: int = 12345,
    ):
        super().__init__(name="bert")
        self.config = config
        self.compute_dtype = compute_dtype
        self.static_shapes = static_shapes
        self.seed = seed
        weights = layers.Initializer(config.initializer_range, seed)
        with self.name_scope:
            self.embeddings = Embeddings(config, weights)
            with tf.name_scope("encoder"):
                self.layers = [
                    TransformerLayer(config, weights, f"layer_{index}")
                    for index in range(config.num_hidden_layers)
                ]
            with tf.name_scope("pooler"):
                self.pooler = layers.Dense(config.hidden_size, config.hidden_size, weights)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor | None = None,  # int32 [B, F]; default all 1
        token_type_ids: tf.Tensor | None = None,  # int32 [B, F]; default all 0
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> BertOutput:
        """Encodes a batch.

        Args:
          input_ids: rows of the word table.
          input_mask: 0 hides a position from every query.
          token_type_ids: rows of the token type table.
          training: whether to drop out.
          seed: of dropout; needed when training with a dropout rate above 0.

        Raises:
          ValueError: training without a seed, or F > max_position_embeddings where F is known.
        """
        states, layout, _, _ = self._encode(
            len(self.layers), input_ids, input_mask, token_type_ids, training, seed
        )
        padded = [tf.cast(layout.pad(state), tf.float32) for state in states]
        return BertOutput(padded[0], padded[1:], padded[-1], self.apply_pooler(padded[-1][:, 0]))

    def encode_positions(
        self,
        positions: tf.Tensor,  # int32 [B, Q]
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor | None = None,  # int32 [B, F]; default all 1
        token_type_ids: tf.Tensor | None = None,  # int32 [B, F]; default all 0
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tf.Tensor:  # float32 [B, Q, H]
        """``sequence_output`` at some positions; the last layer computes only keys and values of
        the other tokens. What a padding position gets has no meaning.

        The other arguments and errors are those of calling the model.
        """
        states, layout, bias, seeds = self._encode(
            len(self.layers) - 1, input_ids, input_mask, token_type_ids, training, seed
        )
        wanted = self.layers[-1](states[-1], layout, bias, seeds, positions)
        shape = [*padding.dimensions(positions), self.config.hidden_size]
        return tf.cast(tf.reshape(wanted, shape), tf.float32)

    def encode_pooled(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor | None = None,  # int32 [B, F]; default all 1
        token_type_ids: tf.Tensor | None = None,  # int32 [B, F]; default all 0
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tf.Tensor:  # float32 [B, H]
        """What stands for the whole text: ``pooled_output``, computed without the last layer's
        other tokens.

        With left-to-right attention it is of the last token, which alone has seen all others.
        Arguments and errors are those of calling the model.
        """
        batch, length = padding.dimensions(tf.convert_to_tensor(input_ids))
        positions = tf.zeros([batch, 1], tf.int32)
        if self.config.attention == "left_to_right" and input_mask is not None:
            columns = tf.range(length) * tf.cast(input_mask > 0, tf.int32)
            positions = tf.reduce_max(columns, -1, keepdims=True)
        elif self.config.attention == "left_to_right":
            positions += length - 1
        states = self.encode_positions(
            positions, input_ids, input_mask, token_type_ids, training=training, seed=seed
        )
        return self.apply_pooler(states[:, 0])

    def apply_pooler(self, states: tf.Tensor) -> tf.Tensor:  # [B, H] -> float32 [B, H]
        """``pooled_output`` of the last layer's states of the first token (paper section 3)."""
        return tf.cast(tf.tanh(self.pooler(tf.cast(states, self.compute_dtype))), tf.float32)

    def _encode(
        self,
        depth: int,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor | None,
        token_type_ids: tf.Tensor | None,
        training: bool,
        seed: tf.Tensor | None,
    ) -> tuple[list[tf.Tensor], padding.TokenLayout, tf.Tensor, tf.Tensor | None]:
        """Embeddings and ``depth`` layers [N, H]; layout, bias and seeds for one more."""
        input_ids = tf.convert_to_tensor(input_ids)
        length, most = input_ids.shape[1], self.config.max_position_embeddings
        if length is not None and length > most:
            raise ValueError(f"sequence length {length} is above max_position_embeddings {most}")
        input_mask = tf.ones_like(input_ids) if input_mask is None else input_mask
        token_type_ids = tf.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        layout = padding.TokenLayout(input_mask, self.static_shapes)
        seeds = self._dropout_seeds(training, seed)  # [1 + 3 L, 2]

        x = self.embeddings(
            layout.flatten(input_ids),
            layout.flatten(token_type_ids),
            layout.columns(),
            None if seeds is None else seeds[0],
        )
        states = [tf.cast(x, self.compute_dtype)]
        bias = attention_bias(input_mask, self.config.attention)
        own = [
            None if seeds is None else seeds[1 + index * layer.DROPOUTS :][: layer.DROPOUTS]
            for index, layer in enumerate(self.layers)
        ]
        for index in range(depth):
            states.append(self.layers[index](states[-1], layout, bias, own[index]))
        return states, layout, bias, own[-1]

    def _dropout_seeds(self, training: bool, seed: tf.Tensor | None) -> tf.Tensor | None:
        config = self.config
        if (
            not training
            or max(config.hidden_dropout_prob, config.attention_probs_dropout_prob) == 0
        ):
            return None
        if seed is None:
            raise ValueError("training with dropout needs a seed: pass seed=int32 [2]")
        return tf.random.split(seed, 1 + TransformerLayer.DROPOUTS * len(self.layers))


class MaskedLmHead(tf.Module):
    """Vocabulary logits of hidden states; the output matrix is the word table."""

    def __init__(self, config: BertConfig, weights: layers.Initializer):
        super().__init__(name="predictions")
        hidden = config.hidden_size
        with self.name_scope:
            with tf.name_scope("transform"):
                self.dense = layers.Dense(hidden, hidden, weights)
                self.norm = layers.LayerNorm(hidden, weights)
            self.output_bias = weights.constant("output_bias", [config.vocab_size], 0.0)
        self._activation = functions.activation(config.hidden_act)

    def __call__(
        self,
        states: tf.Tensor,  # [K, H]
        table: tf.Tensor,  # float32 [V, H]
    ) -> tf.Tensor:  # float32 [K, V]
        states = self.norm(self._activation(self.dense(states)))
        logits = tf.matmul(states, tf.cast(table, states.dtype), transpose_b=True)
        return tf.nn.bias_add(tf.cast(logits, tf.float32), self.output_bias)


class NextSentenceHead(tf.Module):
    """Two logits of the pooled state: 0 = B follows A, 1 = B is from elsewhere."""

    def __init__(self, config: BertConfig, weights: layers.Initializer):
        super().__init__(name="seq_relationship")
        with self.name_scope:
            self.output_weights = weights.normal("output_weights", [2, config.hidden_size])
            self.output_bias = weights.constant("output_bias", [2], 0.0)

    def __call__(self, pooled: tf.Tensor) -> tf.Tensor:  # float32 [B, H] -> [B, 2]
        logits = tf.matmul(pooled, self.output_weights, transpose_b=True)
        return tf.nn.bias_add(logits, self.output_bias)


class PretrainingModel(tf.Module):
    """Encoder with the masked-LM and next-sentence heads; the 206 variables of BERT-BASE.

    Arguments are those of BertModel.
    """

    def __init__(self, config: BertConfig, *, seed: int = 12345, **options: Any):
        super().__init__(name="pretraining")
        self.bert = BertModel(config, seed=seed, **options)
        weights = layers.Initializer(config.initializer_range, seed)
        with tf.name_scope("cls"):
            self.masked_lm = MaskedLmHead(config, weights)
            self.next_sentence = NextSentenceHead(config, weights)

    def token_logits(self, states: tf.Tensor) -> tf.Tensor:  # float32 [K, H] -> float32 [K, V]
        return self.masked_lm(
            tf.cast(states, self.bert.compute_dtype),
            tf.convert_to_tensor(self.bert.embeddings.word),
        )


def create_model_from_config(
    config: BertConfig | Mapping[str, Any] | str, *, heads: bool = False, **options: Any
) -> BertModel | PretrainingModel:
    """Builds a model of any size, from Tiny (L=2, H=128) to BERT-LARGE (L=24, H=1024) and beyond.

    Args:
      config: a BertConfig, the values of one, or the path of a bert_config.json.
      heads: with the masked-LM and next-sentence heads.
      **options: compute_dtype, static_shapes and seed of BertModel.
    """
    if isinstance(config, str):
        config = BertConfig.from_json_file(config)
    elif not isinstance(config, BertConfig):
        config = BertConfig.from_dict(config)
    return (PretrainingModel if heads else BertModel)(config, **options)


def named_variables(model: tf.Module) -> dict[str, tf.Variable]:
    """Trainable variables by checkpoint name, in order of the names.

    Raises:
      ValueError: two variables share a name.
    """
    found: dict[str, tf.Variable] = {}
    for variable in model.trainable_variables:
        name = variable.name.removesuffix(":0")
        if name in found:
            raise ValueError(f"two variables are called {name}")
        found[name] = variable
    return dict(sorted(found.items()))


CLASSIFIER_DROPOUT = 0.1  # of the released model, whatever the encoder's own rate


class ClassifierModel(tf.Module):
    """Encoder, and one output for each label on what stands for the whole text.

    Args:
      config: of the encoder.
      num_labels: L; 1 for regression.
      bilstm: put a BiLSTM between the encoder and the output, instead of the pooler.
      seed: of the initial weights.
      **options: compute_dtype and static_shapes of modeling.BertModel.
    """

    def __init__(
        self,
        encoder: BertModel | BertConfig,
        num_labels: int,
        *,
        bilstm: bool = False,
        seed: int = 12345,
        **options: Any,
    ):
        super().__init__(name="classifier")
        if isinstance(encoder, BertConfig):
            encoder = BertModel(encoder, seed=seed, **options)
        self.bert, config, seed = encoder, encoder.config, encoder.seed
        weights = layers.Initializer(config.initializer_range, seed)
        self.bilstm = lstm.BiLstm(config.hidden_size, weights) if bilstm else None
        # Names of the released fine-tuned models, without a scope.
        self.output_weights = weights.normal("output_weights", [num_labels, config.hidden_size])
        self.output_bias = weights.constant("output_bias", [num_labels], 0.0)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tf.Tensor:  # float32 [B, L]
        inputs = (input_ids, input_mask, segment_ids)
        if self.bilstm is None:
            pooled = self.bert.encode_pooled(*inputs, training=training, seed=seed)
        else:
            output = self.bert(*inputs, training=training, seed=seed)
            _, pooled = self.bilstm(output.sequence_output, input_mask)
        if training:
            if seed is None:
                raise ValueError("training with dropout needs a seed: pass seed=int32 [2]")
            own = tf.random.fold_in(seed, 1 << 20)  # apart from the encoder's
            pooled = functions.dropout(pooled, CLASSIFIER_DROPOUT, own)
        logits = tf.matmul(pooled, self.output_weights, transpose_b=True)
        return tf.nn.bias_add(logits, self.output_bias)


class SpanModel(tf.Module):
    """Encoder, and for every token a score as start and one as end of the answer (paper, 4.2).

    There is no dropout above the encoder, and nothing is said by its pooler.

    Args:
      config: of the encoder.
      bilstm: put a BiLSTM between the encoder and the scores.
      seed: of the initial weights.
      **options: compute_dtype and static_shapes of modeling.BertModel.
    """

    def __init__(
        self,
        encoder: BertModel | BertConfig,
        *,
        bilstm: bool = False,
        seed: int = 12345,
        **options: Any,
    ):
        super().__init__(name="span")
        if isinstance(encoder, BertConfig):
            encoder = BertModel(encoder, seed=seed, **options)
        self.bert, config, seed = encoder, encoder.config, encoder.seed
        weights = layers.Initializer(config.initializer_range, seed)
        self.bilstm = lstm.BiLstm(config.hidden_size, weights) if bilstm else None
        with tf.name_scope("cls"), tf.name_scope("squad"):
            self.output_weights = weights.normal("output_weights", [2, config.hidden_size])
            self.output_bias = weights.constant("output_bias", [2], 0.0)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tuple[tf.Tensor, tf.Tensor]:  # start and end, float32 [B, F]
        output = self.bert(input_ids, input_mask, segment_ids, training=training, seed=seed)
        states = output.sequence_output
        if self.bilstm is not None:
            states, _ = self.bilstm(states, input_mask)
        logits = tf.einsum("bfh,oh->bfo", states, self.output_weights) + self.output_bias
        return logits[:, :, 0], logits[:, :, 1]
