"""BERT: configuration, encoder and task heads.

Variables carry the names of the original release's checkpoints: ``variable.name`` without ``:0`` is
the checkpoint name, there is no mapping table. docs/changing_the_model.md shows how to change it.

Axes, as used in every shape below:
  B  examples in a batch          F  padded sequence length      N  real tokens of the batch
  H  hidden size                  A  attention heads             D  width of a head, H / A
  I  intermediate size            V  vocabulary size             P  longest sequence, in positions
  T  token types                  L  layers                      C  outputs of a classifier
  Q  positions per example whose last state is needed            K  any number of rows

Token-wise work (projections, feed-forward, layer norm, dropout) runs on the flat ``[N, H]`` matrix
of real tokens; only the attention product is laid out ``[B, A, F, F]``. With ``static_shapes``
every position counts as real, N = B * F, and all shapes are fixed, which XLA and TPUs need.

Source: Devlin et al. 2018, arXiv 1810.04805; Vaswani et al. 2017, arXiv 1706.03762.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from checkpoints import config_files
from command_line import errors, original_names
from nn import functions, layers, lstm, padding

ATTENTION_KINDS = ("bidirectional", "left_to_right")

# Added to the attention score of a hidden key: its probability is 0 after the softmax, float16 can
# hold it, and released models were trained with it.
HIDDEN_KEY_BIAS = -10000.0

CLASSIFIER_DROPOUT = 0.1  # of the released model, whatever the rate of the encoder


# --------------------------------------------------------------------------------------------------
# Configuration
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes of a model; what ``bert_config.json``, or Hugging Face's ``config.json``, holds.

    Attributes:
      vocab_size: rows of the word table.
      hidden_size: H; a multiple of num_attention_heads.
      num_hidden_layers: L.
      num_attention_heads: A.
      intermediate_size: I, width of the feed-forward layer.
      hidden_act: a name in nn.functions.ACTIVATIONS; "gelu" is the tanh form.
      hidden_dropout_prob: dropout of embeddings and of each sub-layer's output, in [0, 1).
      attention_probs_dropout_prob: dropout of attention probabilities, in [0, 1).
      max_position_embeddings: P, the longest sequence.
      type_vocab_size: T.
      initializer_range: standard deviation of the truncated normal initial weights.
      layer_norm_eps: added to the variance in layer norms, in (0, 1). Written to JSON only when it
        is not the original release's 1e-12.
      attention: "bidirectional", or "left_to_right" where a token sees itself and the tokens
        before it (paper section 5.1). Written to JSON only when left_to_right.
      extra: keys of the file that the model does not use.
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
    layer_norm_eps: float = functions.LAYER_NORM_EPSILON
    attention: str = "bidirectional"
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def check(self) -> None:
        """Checks the values, which happens when a model is built or a file is read.

        Raises:
          errors.UserError: a value of the wrong type, or sizes that do not fit each other.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and not (_is_number(value, whole=True) and 0 < value < 2**31):
                raise errors.UserError(
                    f"{field.name} is {value!r}, expected a whole number from 1 to 2^31 - 1"
                )
            if field.type is float and (not _is_number(value) or not 0 <= value < 1):
                raise errors.UserError(f"{field.name} is {value!r}, expected a number in [0, 1)")
        functions.activation(self.hidden_act)
        if not self.layer_norm_eps:
            raise errors.UserError("layer_norm_eps is 0, expected a number above 0, such as 1e-12")
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
    def from_dict(cls, values: Mapping[str, Any]) -> "BertConfig":
        """Builds a config; keys that it does not know are kept in ``extra``.

        Raises:
          errors.UserError: vocab_size is missing, or a key asks for another model than this one.
        """
        known = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        if "vocab_size" not in values:
            raise errors.UserError("vocab_size is missing")
        config_files.check_unused_keys(values, known)
        used = {key: values[key] for key in known & values.keys()}
        if "hidden_act" in values:
            used["hidden_act"] = config_files.hidden_act(values)
        extra = {key: value for key, value in values.items() if key not in known}
        return cls(**used, extra=extra)

    @classmethod
    def from_json_file(cls, path: str, flag: str = "--bert_config_file") -> "BertConfig":
        """Reads and checks a config file; local paths and those of tf.io.gfile.

        Raises:
          errors.UserError: naming the flag, the file and what is wrong with it.
        """
        try:
            config = cls.from_dict(config_files.read(path))
            config.check()
        except errors.UserError as error:
            message = str(error).removeprefix(f"{path}: ")
            raise errors.UserError(f"{flag}={path}: {message}") from None
        return config

    def to_dict(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        extra = values.pop("extra")
        for name in ("attention", "layer_norm_eps"):
            if values[name] == type(self).__dataclass_fields__[name].default:
                del values[name]
        return {**extra, **values}

    def to_json_string(self) -> str:
        """The file's form: two-space indent, sorted keys, final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def _is_number(value: Any, whole: bool = False) -> bool:
    kinds = (int,) if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


# --------------------------------------------------------------------------------------------------
# Encoder
# --------------------------------------------------------------------------------------------------


def attention_bias(input_mask: tf.Tensor, attention: str) -> tf.Tensor:
    """The term added to attention scores: 0 for a visible key, -10000 for a hidden one.

    Args:
      input_mask: int32 [B, F]; keys with mask 0 are hidden from every query.
      attention: "bidirectional", or "left_to_right", where keys after the query are hidden too.

    Returns:
      float32 [B, 1, 1, F], or [B, 1, F, F] for left_to_right.
    """
    bias = (1.0 - tf.cast(input_mask, tf.float32))[:, None, None, :] * HIDDEN_KEY_BIAS
    if attention == "bidirectional":
        return bias
    position = tf.range(tf.shape(input_mask)[1])
    later = tf.cast(position[None, :] > position[:, None], tf.float32)  # [F, F]
    return bias + later * HIDDEN_KEY_BIAS


class LayerContext(NamedTuple):
    """What the layers of the encoder share in one call.

    Attributes:
      layout: where the real tokens of the batch are.
      bias: float32 [B, 1, 1 or F, F], added to attention scores.
      seed: int32 [2], of dropout; None: no dropout.
      positions: int32 [B, Q], the tokens whose states a layer computes; None: all tokens.
    """

    layout: padding.TokenLayout
    bias: tf.Tensor
    seed: tf.Tensor | None = None
    positions: tf.Tensor | None = None


class SelfAttention(tf.Module):
    """Multi-head attention: softmax(Q K^T / sqrt(D) + bias) V in each head, then a dense layer.

    Source: Vaswani et al. 2017, section 3.2.
    """

    def __init__(self, config: BertConfig, initializer: layers.Initializer):
        super().__init__(name="attention")
        hidden = config.hidden_size
        self.num_heads = config.num_attention_heads
        with self.name_scope:
            with tf.name_scope("self"):
                self.query = layers.Dense(hidden, hidden, initializer, "query")
                self.key = layers.Dense(hidden, hidden, initializer, "key")
                self.value = layers.Dense(hidden, hidden, initializer, "value")
                self.probs_dropout = layers.Dropout(config.attention_probs_dropout_prob)
            with tf.name_scope("output"):
                self.dense = layers.Dense(hidden, hidden, initializer)
                self.dropout = layers.Dropout(config.hidden_dropout_prob)

    def __call__(
        self,
        queries: tf.Tensor,  # [N, H], or [B * Q, H] at context.positions
        inputs: tf.Tensor,  # [N, H]
        context: LayerContext,
    ) -> tf.Tensor:  # shape and dtype of queries
        """What each query gathers from all tokens of its example."""
        layout, bias, seed, positions = context
        query = self.query(queries)
        query *= tf.cast((query.shape[-1] // self.num_heads) ** -0.5, query.dtype)
        if positions is None:
            query = layout.pad(query)  # [B, F, H]
        else:
            query = tf.reshape(query, [*padding.dimensions(positions), query.shape[-1]])
            if bias.shape[2] != 1:
                bias = tf.gather(bias[:, 0], positions, batch_dims=1)[:, None]  # [B, 1, Q, F]
        key, value = layout.pad(self.key(inputs)), layout.pad(self.value(inputs))
        query, key, value = map(self._split_heads, (query, key, value))
        scores = tf.matmul(query, key, transpose_b=True)  # [B, A, F or Q, F]
        attention_probs = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
        attention_probs = self.probs_dropout(attention_probs, seed)
        values = tf.matmul(tf.cast(attention_probs, inputs.dtype), value)  # [B, A, F or Q, D]
        values = tf.reshape(tf.transpose(values, [0, 2, 1, 3]), [-1, inputs.shape[-1]])
        if positions is None:
            values = layout.unpad(values)
        return self.dropout(self.dense(values), seed)

    def _split_heads(self, x: tf.Tensor) -> tf.Tensor:  # [B, K, H] -> [B, A, K, D]
        batch_size, length, hidden = padding.dimensions(x)
        shape = [batch_size, length, self.num_heads, hidden // self.num_heads]
        return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])


class FeedForward(tf.Module):
    """activation(x W1 + b1) W2 + b2 on every token (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: BertConfig, initializer: layers.Initializer):
        super().__init__(name="feed_forward")  # not a scope: checkpoints have no such name
        with tf.name_scope("intermediate"):
            self.intermediate = layers.Dense(
                config.hidden_size, config.intermediate_size, initializer
            )
        with tf.name_scope("output"):
            self.output = layers.Dense(config.intermediate_size, config.hidden_size, initializer)
            self.dropout = layers.Dropout(config.hidden_dropout_prob)
        self.activation = functions.activation(config.hidden_act)

    def __call__(self, inputs: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """[K, H] -> [K, H]; ``seed``: int32 [2], of dropout, or None for no dropout."""
        return self.dropout(self.output(self.activation(self.intermediate(inputs))), seed)


class TransformerLayer(tf.Module):
    """Self-attention and feed-forward, each followed by add and norm (post-norm).

    Args:
      config: sizes.
      initializer: makes the variables.
      name: scope of the layer, such as "layer_0".
      attention: SelfAttention, or another function of (config, initializer) to what is called so.
      feed_forward: FeedForward, likewise.
    """

    def __init__(
        self,
        config: BertConfig,
        initializer: layers.Initializer,
        name: str,
        *,
        attention: Callable[[BertConfig, layers.Initializer], Any] = SelfAttention,
        feed_forward: Callable[[BertConfig, layers.Initializer], Any] = FeedForward,
    ):
        super().__init__(name=name)
        with self.name_scope as scope:
            self.attention = attention(config, initializer)
            self.feed_forward = feed_forward(config, initializer)
            # In checkpoints, a norm is beside the dense layer before it.
            with tf.name_scope(f"{scope}attention/output/"):
                self.attention_norm = layers.LayerNorm(
                    config.hidden_size, initializer, config.layer_norm_eps
                )
            with tf.name_scope(f"{scope}output/"):
                self.output_norm = layers.LayerNorm(
                    config.hidden_size, initializer, config.layer_norm_eps
                )

    def __call__(
        self,
        inputs: tf.Tensor,  # [N, H]
        context: LayerContext,
    ) -> tf.Tensor:  # [N, H], or [B * Q, H] at context.positions
        queries = context.layout.gather_positions(inputs, context.positions)
        states = self.attention_norm(queries + self.attention(queries, inputs, context))
        return self.output_norm(states + self.feed_forward(states, context.seed))


class Embeddings(tf.Module):
    """Word + token type + position, then norm and dropout."""

    def __init__(self, config: BertConfig, initializer: layers.Initializer):
        super().__init__(name="embeddings")
        hidden = config.hidden_size
        with self.name_scope:
            self.word = initializer.normal("word_embeddings", [config.vocab_size, hidden])
            self.token_type = initializer.normal(
                "token_type_embeddings", [config.type_vocab_size, hidden]
            )
            self.position = initializer.normal(
                "position_embeddings", [config.max_position_embeddings, hidden]
            )
            self.norm = layers.LayerNorm(hidden, initializer, config.layer_norm_eps)
            self.dropout = layers.Dropout(config.hidden_dropout_prob)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [N]
        token_type_ids: tf.Tensor,  # int32 [N]
        position_ids: tf.Tensor,  # int32 [N]
        seed: tf.Tensor | None,  # int32 [2], of dropout; None: no dropout
    ) -> tf.Tensor:  # float32 [N, H]
        total = tf.gather(self.word, input_ids)
        # Small tables by a product: the gradient of a gather with few distinct rows is slow.
        total += tf.matmul(tf.one_hot(token_type_ids, self.token_type.shape[0]), self.token_type)
        total += tf.gather(self.position, position_ids)
        return self.dropout(self.norm(total), seed)


class BertOutput(NamedTuple):
    """What the encoder computes. In padding-free execution padding positions are 0."""

    embedding_output: tf.Tensor  # float32 [B, F, H]
    all_encoder_layers: list[tf.Tensor]  # L times float32 [B, F, H]
    sequence_output: tf.Tensor  # float32 [B, F, H], the last layer
    pooled_output: tf.Tensor  # float32 [B, H]


class BertModel(tf.Module):
    """The encoder with its pooler; a subclass changes its layers by ``make_layer``.

    Args:
      config: sizes.
      scope: first part of the names of its variables.
      compute_dtype: dtype of the matrix products; variables, norms and softmax are float32.
      static_shapes: compute padding too, so that all shapes are fixed.
      seed: of the initial values, also of those of a head on top.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        scope: str = "bert",
        compute_dtype: tf.DType = tf.float32,
        static_shapes: bool = False,
        seed: int = 12345,
    ):
        config.check()
        super().__init__(name=scope)
        self.config = config
        self.scope = scope
        self.compute_dtype = compute_dtype
        self.static_shapes = static_shapes
        self.initializer = layers.Initializer(config.initializer_range, seed)
        with self.name_scope:
            self.embeddings = Embeddings(config, self.initializer)
            with tf.name_scope("encoder"):
                self.layers = [self.make_layer(i) for i in range(config.num_hidden_layers)]
            with tf.name_scope("pooler"):
                self.pooler = layers.Dense(config.hidden_size, config.hidden_size, self.initializer)

    def __new__(cls, *arguments: Any, **options: Any) -> "BertModel":
        if cls is BertModel and (len(arguments) > 1 or "is_training" in options):
            raise TypeError(
                "BertModel takes no is_training and no tensors when it is made; use "
                "BertModel(config)(input_ids, input_mask, token_type_ids, training=...)"
            )
        return super().__new__(cls)

    def __getattr__(self, name: str) -> Any:
        if name in original_names.REPLACEMENTS["modeling.BertModel"]:
            original_names.refuse("modeling.BertModel", name)
        return object.__getattribute__(self, name)  # raises what a property raised, or the usual

    def make_layer(self, index: int) -> TransformerLayer:
        """Makes layer ``index``, from 0; called once for each layer when the model is built."""
        return TransformerLayer(self.config, self.initializer, f"layer_{index}")

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
          training: whether to apply dropout.
          seed: of dropout; needed when training with a dropout rate above 0.

        Raises:
          ValueError: training without a seed, or F > max_position_embeddings where F is known.
        """
        embedded, context = self._embed(input_ids, input_mask, token_type_ids, training, seed)
        states = [embedded]
        for layer in self.layers:
            states.append(layer(states[-1], context))
        padded = [tf.cast(context.layout.pad(state), tf.float32) for state in states]
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
        """``sequence_output`` at some positions; undefined at padding positions.

        Faster than calling the model: of the other tokens, the last layer computes only keys and
        values. The other arguments and errors are those of calling the model.
        """
        states, context = self._embed(input_ids, input_mask, token_type_ids, training, seed)
        for layer in self.layers[:-1]:
            states = layer(states, context)
        states = self.layers[-1](states, context._replace(positions=positions))
        shape = [*padding.dimensions(positions), self.config.hidden_size]
        return tf.cast(tf.reshape(states, shape), tf.float32)

    def encode_pooled(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor | None = None,  # int32 [B, F]; default all 1
        token_type_ids: tf.Tensor | None = None,  # int32 [B, F]; default all 0
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tf.Tensor:  # float32 [B, H]
        """One vector for the whole text: ``pooled_output``, by the faster ``encode_positions``.

        With left-to-right attention it is made from the last token, the only one that has seen all
        others. Arguments and errors are those of calling the model.
        """
        batch_size, length = padding.dimensions(tf.convert_to_tensor(input_ids))
        positions = tf.zeros([batch_size, 1], tf.int32)
        if self.config.attention == "left_to_right" and input_mask is not None:
            real_positions = tf.range(length) * tf.cast(input_mask > 0, tf.int32)
            positions = tf.reduce_max(real_positions, -1, keepdims=True)
        elif self.config.attention == "left_to_right":
            positions += length - 1
        states = self.encode_positions(
            positions, input_ids, input_mask, token_type_ids, training=training, seed=seed
        )
        return self.apply_pooler(states[:, 0])

    def apply_pooler(self, states: tf.Tensor) -> tf.Tensor:  # [B, H] -> float32 [B, H]
        """``pooled_output`` from the last layer's states of the first token (paper section 3)."""
        return tf.cast(tf.tanh(self.pooler(tf.cast(states, self.compute_dtype))), tf.float32)

    def _embed(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor | None,  # int32 [B, F]
        token_type_ids: tf.Tensor | None,  # int32 [B, F]
        training: bool,
        seed: tf.Tensor | None,  # int32 [2]
    ) -> tuple[tf.Tensor, LayerContext]:
        """The input of the first layer, [N, H] of compute_dtype, and what the layers share."""
        input_ids = tf.convert_to_tensor(input_ids)
        length, longest = input_ids.shape[1], self.config.max_position_embeddings
        if length is not None and length > longest:
            raise ValueError(f"sequence length {length} is above max_position_embeddings {longest}")
        if input_mask is None:
            input_mask = tf.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = tf.zeros_like(input_ids)
        input_mask, token_type_ids = map(tf.convert_to_tensor, (input_mask, token_type_ids))
        layout = padding.TokenLayout(input_mask, self.static_shapes)
        seed = layers.dropout_seed(self, training, seed)
        embedded = self.embeddings(
            layout.flatten(input_ids), layout.flatten(token_type_ids), layout.position_ids(), seed
        )
        bias = attention_bias(input_mask, self.config.attention)
        return tf.cast(embedded, self.compute_dtype), LayerContext(layout, bias, seed)


def named_variables(model: tf.Module) -> dict[str, tf.Variable]:
    """Trainable variables by checkpoint name, in order of the names.

    Raises:
      ValueError: two variables share a name.
    """
    variables: dict[str, tf.Variable] = {}
    for variable in model.trainable_variables:
        name = variable.name.removesuffix(":0")
        if name in variables:
            raise ValueError(f"two variables are called {name}")
        variables[name] = variable
    return dict(sorted(variables.items()))


# --------------------------------------------------------------------------------------------------
# Task heads on top of the encoder
# --------------------------------------------------------------------------------------------------


class MaskedLmHead(tf.Module):
    """Vocabulary logits of hidden states; the output matrix is the word table."""

    def __init__(self, config: BertConfig, initializer: layers.Initializer):
        super().__init__(name="predictions")
        hidden = config.hidden_size
        with self.name_scope:
            with tf.name_scope("transform"):
                self.dense = layers.Dense(hidden, hidden, initializer)
                self.norm = layers.LayerNorm(hidden, initializer, config.layer_norm_eps)
            self.output_bias = initializer.constant("output_bias", [config.vocab_size], 0.0)
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
    """Two logits of the pooled state: 0 = B follows A, 1 = B is from another document."""

    def __init__(self, config: BertConfig, initializer: layers.Initializer):
        super().__init__(name="seq_relationship")
        with self.name_scope:
            self.output_weights = initializer.normal("output_weights", [2, config.hidden_size])
            self.output_bias = initializer.constant("output_bias", [2], 0.0)

    def __call__(self, pooled: tf.Tensor) -> tf.Tensor:  # float32 [B, H] -> [B, 2]
        logits = tf.matmul(pooled, self.output_weights, transpose_b=True)
        return tf.nn.bias_add(logits, self.output_bias)


class PretrainingModel(tf.Module):
    """Encoder with the masked-LM and next-sentence heads; the 206 variables of BERT-BASE."""

    def __init__(self, encoder: BertModel):
        super().__init__(name="pretraining")
        self.encoder = encoder
        with tf.name_scope("cls"):
            self.masked_lm = MaskedLmHead(encoder.config, encoder.initializer)
            self.next_sentence = NextSentenceHead(encoder.config, encoder.initializer)

    def token_logits(self, states: tf.Tensor) -> tf.Tensor:  # float32 [K, H] -> float32 [K, V]
        return self.masked_lm(
            tf.cast(states, self.encoder.compute_dtype),
            tf.convert_to_tensor(self.encoder.embeddings.word),
        )


class ClassifierModel(tf.Module):
    """Encoder, and C outputs for the whole text.

    Args:
      encoder: made by the caller; its initializer also makes the variables of the head.
      num_labels: C; 1 for regression.
      bilstm: put a BiLSTM between the encoder and the output, instead of the pooler.
    """

    def __init__(self, encoder: BertModel, num_labels: int, *, bilstm: bool = False):
        super().__init__(name="classifier")
        self.encoder = encoder
        hidden, initializer = encoder.config.hidden_size, encoder.initializer
        self.bilstm = lstm.BiLstm(hidden, initializer) if bilstm else None
        self.dropout = layers.Dropout(CLASSIFIER_DROPOUT, "classifier_dropout")
        # Names of the released fine-tuned models, without a scope.
        self.output_weights = initializer.normal("output_weights", [num_labels, hidden])
        self.output_bias = initializer.constant("output_bias", [num_labels], 0.0)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2], of dropout; needed when training
    ) -> tf.Tensor:  # float32 [B, C]
        inputs = (input_ids, input_mask, segment_ids)
        if self.bilstm is None:
            pooled = self.encoder.encode_pooled(*inputs, training=training, seed=seed)
        else:
            output = self.encoder(*inputs, training=training, seed=seed)
            _, pooled = self.bilstm(output.sequence_output, input_mask)
        pooled = self.dropout(pooled, layers.dropout_seed(self, training, seed))
        logits = tf.matmul(pooled, self.output_weights, transpose_b=True)
        return tf.nn.bias_add(logits, self.output_bias)


class SpanModel(tf.Module):
    """Encoder, and for every token a score as start and one as end of the answer (paper, 4.2).

    There is no dropout above the encoder, and the pooler is not used.

    Args:
      encoder: made by the caller; its initializer also makes the variables of the head.
      bilstm: put a BiLSTM between the encoder and the scores.
    """

    def __init__(self, encoder: BertModel, *, bilstm: bool = False):
        super().__init__(name="span")
        self.encoder = encoder
        hidden, initializer = encoder.config.hidden_size, encoder.initializer
        self.bilstm = lstm.BiLstm(hidden, initializer) if bilstm else None
        with tf.name_scope("cls"), tf.name_scope("squad"):
            self.output_weights = initializer.normal("output_weights", [2, hidden])
            self.output_bias = initializer.constant("output_bias", [2], 0.0)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2], of dropout
    ) -> tuple[tf.Tensor, tf.Tensor]:  # start and end, float32 [B, F]
        output = self.encoder(input_ids, input_mask, segment_ids, training=training, seed=seed)
        states = output.sequence_output
        if self.bilstm is not None:
            states, _ = self.bilstm(states, input_mask)
        logits = tf.einsum("bfh,oh->bfo", states, self.output_weights) + self.output_bias
        return logits[:, :, 0], logits[:, :, 1]


# --------------------------------------------------------------------------------------------------
# Public names of the original release
# --------------------------------------------------------------------------------------------------

gelu = functions.gelu
get_activation = functions.activation


def get_shape_list(
    tensor: tf.Tensor, expected_rank: int | Sequence[int] | None = None, name: str | None = None
) -> list[Any]:
    """The shape as Python ints where they are known, else as int32 [] tensors.

    Raises:
      ValueError: the rank is not expected_rank, or none of them.
    """
    ranks = [expected_rank] if isinstance(expected_rank, int) else expected_rank
    if ranks is not None and tensor.shape.rank not in ranks:
        raise ValueError(f"{name or 'tensor'} has rank {tensor.shape.rank}, expected {ranks}")
    return padding.dimensions(tensor)


__getattr__ = original_names.getattr_of("modeling")
