"""Messages about names and shapes; most are tested through the restoring that gives them."""

import pytest

from checkpoints import matching


def test_training_state_is_told_by_name():
    names = ["global_step", "a/adam_m", "a/adam_v", "a/adam_metric", "global_step_x", "b"]
    assert matching.weights_only(names) == ["a/adam_metric", "global_step_x", "b"]


@pytest.mark.parametrize(
    "slots",
    [("BERTAdam", "BERTAdam_1"), ("Adam", "Adam_1"), ("lamb_m", "lamb_v"), ("Momentum",), ("x/y",)],
)
def test_state_of_any_optimizer_is_told_by_its_place(slots):
    weights = [
        "bert/encoder/layer_0/attention/self/query/kernel",
        "bert/encoder/layer_0/output/LayerNorm/gamma",
        "bert/embeddings/word_embeddings",
        "output_weights",
        "cls/squad/output_bias",
    ]
    state = [f"{name}/{slot}" for name in weights for slot in slots]
    names = [*weights, *state, "beta1_power", "beta2_power"]
    assert matching.weights_only(names) == weights
    assert matching.foreign_model_reason(dict.fromkeys(weights, ()), dict.fromkeys(names, ())) == ""


def test_own_checkpoint_may_have_other_heads_but_no_other_encoder():
    model = {"bert/a": (2,), "bert/a/adam_m": (2,)}
    assert matching.foreign_model_reason(model, {**model, "cls/x": (1,)}) == ""
    assert matching.foreign_model_reason(model, {"bert/a": (2,), "global_step": ()}) == ""
    assert matching.foreign_model_reason(model, {"bert/a": (2,), "bert/b/adam_v": (9,)}) == ""
    assert "also has bert/b" in matching.foreign_model_reason(model, {**model, "bert/b": (1,)})
    assert "lacks bert/a" in matching.foreign_model_reason(model, {"cls/x": (1,)})


def test_the_number_of_differing_shapes_is_told():
    model = {"a": (1,), "b": (2,), "c": (3,)}
    text = matching.shape_difference(model, {"a": (1,), "b": (1,), "c": (1,), "d": (9,)})
    assert text.startswith("b has shape (1,) in the checkpoint and (2,) in the model (and 1 more);")
    assert matching.shape_difference(model, {"a": (1,)}) == ""


def test_what_results_of_a_trained_model_need():
    names = ["bert/pooler/w", "bert/encoder/layer_0/w", "bert/encoder/layer_1/w", "head"]
    model = dict.fromkeys(names, (2,))
    trained = ["bert/encoder/layer_1/w", "head"]  # the first layer is frozen

    def why(file):
        return matching.untrained_reason(model, trained, file)

    assert why({**model, "global_step": (), "head/adam_m": (2,), "other_head": (3,)}) == ""
    assert why({name: (2,) for name in names[1:]}) == ""  # nothing depends on the pooler
    for name in names[1:3]:
        file = {other: shape for other, shape in model.items() if other != name}
        assert why(file) == (f"it lacks {name}; look at num_hidden_layers in --bert_config_file")
    more = {**model, "bert/encoder/layer_2/w": (2,)}
    assert why(more).startswith("it also has bert/encoder/layer_2/w; look at num_hidden_layers")
    assert why(dict.fromkeys(names[:3], (2,))).startswith("it lacks head: the results would be")
    assert "head has shape (3,) in the checkpoint and (2,)" in why({**model, "head": (3,)})
