"""Names of the original release: each works, or says in one sentence what to use today."""

import importlib
import re

import pytest

import modeling
import tiny
from command_line import original_names

MODULES = [name for name in original_names.REPLACEMENTS if name != "modeling.BertModel"]
GONE = [(module, name) for module in MODULES for name in original_names.REPLACEMENTS[module]]


@pytest.mark.parametrize("module, name", GONE)
def test_names_that_are_gone(module, name):
    loaded = importlib.import_module(module)
    replacement = original_names.REPLACEMENTS[module][name]
    with pytest.raises(AttributeError) as raised:
        getattr(loaded, name)
    expected = f"{module}.{name} of the original release is gone; use {replacement}"
    assert str(raised.value) == expected
    assert not hasattr(loaded, name) and name not in dir(loaded)


@pytest.mark.parametrize("module", MODULES)
def test_replacements_exist(module):
    for replacement in original_names.REPLACEMENTS[module].values():
        for path in replacement.split(" and "):
            owner, _, name = path.rpartition(".")
            if path.startswith("tf.") or not owner:
                continue
            try:
                importlib.import_module(path)
            except ImportError:
                try:
                    assert hasattr(importlib.import_module(owner), name), path
                except ImportError:  # a method
                    module_name, _, cls = owner.rpartition(".")
                    assert hasattr(getattr(importlib.import_module(module_name), cls), name), path


def test_getters_of_the_model():
    model = modeling.BertModel(modeling.BertConfig.from_dict(tiny.CONFIG))
    for name, replacement in original_names.REPLACEMENTS["modeling.BertModel"].items():
        with pytest.raises(
            AttributeError, match=f"BertModel.{name} .* use {re.escape(replacement)}"
        ):
            getattr(model, name)
    with pytest.raises(TypeError, match="BertModel takes no is_training"):
        modeling.BertModel(model.config, True, None)
    with pytest.raises(TypeError, match=r"use BertModel\(config\)\(input_ids"):
        modeling.BertModel(config=model.config, is_training=True, input_ids=None)
    with pytest.raises(AttributeError, match="'BertModel' object has no attribute 'no_such_name'"):
        model.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="there is no modeling.no_such_name"):
        modeling.no_such_name  # noqa: B018
