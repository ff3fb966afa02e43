"""Messages about names and shapes; most are tested through the restoring that gives them."""

import weight_matching


def test_a_list_of_names_is_cut():
    assert weight_matching.some([]) == ""
    assert weight_matching.some(["a", "b"]) == "a, b"
    assert weight_matching.some("abcdef", count=2) == "a, b, and 4 more"


def test_training_state_is_told_by_name():
    names = ["global_step", "a/adam_m", "a/adam_v", "a/adam_metric", "global_step_x", "b"]
    assert weight_matching.weights_only(names) == ["a/adam_metric", "global_step_x", "b"]


def test_own_checkpoint_may_have_other_heads_but_no_other_encoder():
    model = {"bert/a": (2,), "bert/a/adam_m": (2,)}
    assert weight_matching.another_model(model, {**model, "cls/x": (1,)}) == ""
    assert weight_matching.another_model(model, {"bert/a": (2,), "global_step": ()}) == ""
    assert weight_matching.another_model(model, {"bert/a": (2,), "bert/b/adam_v": (9,)}) == ""
    assert "also has bert/b" in weight_matching.another_model(model, {**model, "bert/b": (1,)})
    assert "lacks bert/a" in weight_matching.another_model(model, {"cls/x": (1,)})


def test_the_number_of_differing_shapes_is_told():
    model = {"a": (1,), "b": (2,), "c": (3,)}
    text = weight_matching.difference(model, {"a": (1,), "b": (1,), "c": (1,), "d": (9,)})
    assert text.startswith("b has shape (1,) in the checkpoint and (2,) in the model (and 1 more);")
    assert weight_matching.difference(model, {"a": (1,)}) == ""
