"""Public names of the original release that are gone: whoever uses one reads what to use today.

Names that work as they did are where they always were; the page
docs/coming_from_the_original_release.md lists both kinds.
"""

import importlib
from collections.abc import Callable
from typing import Any, NoReturn

# Command -> name that it had -> module that has it now. Imported when asked for, as all that a
# command imports delays its --help.
ALIASES: dict[str, dict[str, str]] = {
    "run_classifier": {
        "ColaProcessor": "tasks.classifier.glue_tasks",
        "DataProcessor": "tasks.classifier.examples",
        "InputExample": "tasks.classifier.examples",
        "InputFeatures": "tasks.classifier.examples",
        "MnliProcessor": "tasks.classifier.glue_tasks",
        "MrpcProcessor": "tasks.classifier.glue_tasks",
        "PaddingInputExample": "tasks.classifier.examples",
        "XnliProcessor": "tasks.classifier.glue_tasks",
        "_truncate_seq_pair": "tasks.classifier.features",
        "convert_examples_to_features": "tasks.classifier.features",
        "convert_single_example": "tasks.classifier.features",
    },
    "run_squad": {"get_final_text": "tasks.squad.texts"},
}

# Module, or class, of the original release -> name -> what replaces it.
REPLACEMENTS: dict[str, dict[str, str]] = {
    "modeling": {
        "assert_rank": "tf.debugging.assert_rank",
        "attention_layer": "modeling.SelfAttention",
        "create_attention_mask_from_input_mask": "modeling.attention_bias",
        "create_initializer": "nn.layers.Initializer",
        "dropout": "nn.layers.Dropout",
        "embedding_lookup": "modeling.Embeddings",
        "embedding_postprocessor": "modeling.Embeddings",
        "get_assignment_map_from_checkpoint": "checkpoints.restore.load_matching",
        "layer_norm": "nn.layers.LayerNorm",
        "layer_norm_and_dropout": "nn.layers.LayerNorm and nn.layers.Dropout",
        "reshape_from_matrix": "nn.padding.TokenLayout.pad",
        "reshape_to_matrix": "nn.padding.TokenLayout.unpad",
        "transformer_model": "modeling.BertModel",
    },
    "modeling.BertModel": {
        "get_all_encoder_layers": "model(...).all_encoder_layers",
        "get_embedding_output": "model(...).embedding_output",
        "get_embedding_table": "model.embeddings.word",
        "get_pooled_output": "model(...).pooled_output",
        "get_sequence_output": "model(...).sequence_output",
    },
    "optimization": {
        "AdamWeightDecayOptimizer": "optimization.AdamWeightDecay",
        "create_optimizer": "optimization.Schedule and optimization.AdamWeightDecay",
    },
    "create_pretraining_data": {
        "MaskedLmInstance": "tasks.pretraining.masking.mask",
        "TrainingInstance": "tasks.pretraining.instances.Instance",
        "create_float_feature": "tasks.pretraining.records.encode_example",
        "create_instances_from_document": "tasks.pretraining.instances.InstanceBuilder",
        "create_int_feature": "tasks.pretraining.records.encode_example",
        "create_training_instances": "tasks.pretraining.shards.build_shard",
        "write_instance_to_example_files": "tasks.pretraining.record_files.RoundRobinWriter",
    },
    "run_pretraining": {
        "gather_indexes": "modeling.BertModel.encode_positions",
        "get_masked_lm_output": "modeling.MaskedLmHead",
        "get_next_sentence_output": "modeling.NextSentenceHead",
        "input_fn_builder": "tasks.pretraining.record_batches.RecordBatches",
        "model_fn_builder": "tasks.pretraining.objectives and training.loop.Trainer",
    },
    "run_classifier": {
        "create_model": "modeling.ClassifierModel",
        "file_based_convert_examples_to_features": "tasks.classifier.features.encode",
        "file_based_input_fn_builder": "training.batching.FeatureBatches",
        "input_fn_builder": "training.batching.FeatureBatches",
        "model_fn_builder": "tasks.classifier.fine_tune.ClassifierFineTuning",
    },
    "run_squad": {
        "FeatureWriter": "tasks.squad.features.build",
        "InputFeatures": "tasks.squad.features.Features",
        "RawResult": "tasks.squad.logits.Logits",
        "SquadExample": "tasks.squad.examples.Question",
        "convert_examples_to_features": "tasks.squad.features.build",
        "create_model": "modeling.SpanModel",
        "input_fn_builder": "training.batching.FeatureBatches",
        "model_fn_builder": "tasks.squad.fine_tune.SquadFineTuning",
        "read_squad_examples": "tasks.squad.examples.read",
        "validate_flags_or_throw": "tasks.squad.data.read",
        "write_predictions": "tasks.squad.answers.answer and tasks.squad.prediction_files.write",
    },
}


def refuse(module: str, name: str) -> NoReturn:
    """Raises the AttributeError of a name that a module does not have.

    Raises:
      AttributeError: in one sentence, naming the replacement if the original release had the name.
    """
    if replacement := REPLACEMENTS[module].get(name):
        raise AttributeError(f"{module}.{name} of the original release is gone; use {replacement}")
    raise AttributeError(f"there is no {module}.{name}")


def getattr_of(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module: ``__getattr__ = original_names.getattr_of("modeling")``."""

    def find(name: str) -> Any:
        if owner := ALIASES.get(module, {}).get(name):
            return getattr(importlib.import_module(owner), name)
        return refuse(module, name)

    return find
