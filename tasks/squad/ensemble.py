"""Several models that answer together: what --init_checkpoint names, and whether they fit."""

import os
from collections.abc import Sequence

import modeling
import tokenization
from checkpoints import manager, restore
from command_line import errors
from training import compatibility, fine_tuning_flags, run_state


def check(
    members: Sequence[str], flags: fine_tuning_flags.FineTuningFlags, config: modeling.BertConfig
) -> None:
    """Checks that one encoder can run all models that --init_checkpoint names, on the same tokens.

    ``config``, that of the encoder, was read for the first of them.

    Raises:
      errors.UserError: they differ in attention, activation or heads, or what is in --output_dir
        would be used instead of them.
    """
    newest = manager.latest(flags.run.output_dir)
    if newest:
        raise errors.UserError(
            f"--init_checkpoint names {len(members)} models, but {newest} is there, and what is in "
            "--output_dir comes first; give another --output_dir"
        )
    config_file = flags.model.bert_config_file
    usual = modeling.BertConfig.from_json_file(config_file).attention
    attentions = {}
    for index, member in enumerate(members):
        origin = compatibility.Origin.read(restore.open_checkpoint(member).path)
        attentions[member] = origin.state.get("attention", usual)
        if index:  # the driver has looked at the first one
            tokenization.validate_case_matches_checkpoint(flags.text.do_lower_case, member)
            origin.check_config(config, config_file)
            origin.warn_if_text_rules_differ(flags.text)
    if len(set(attentions.values())) > 1:
        pairs = ", ".join(f"{member}: {attention}" for member, attention in attentions.items())
        raise errors.UserError(
            f"--init_checkpoint names models that differ in attention ({pairs}), and cannot "
            "predict together; give those of one kind"
        )


def check_trained(members: Sequence[str], state: run_state.RunState) -> None:
    """Checks that each model has all variables, and that none is named twice.

    Raises:
      errors.UserError: a checkpoint is not of this model.
      errors.FlagError: two names mean the same checkpoint.
    """
    names: dict[str, str] = {}
    for member in members:
        weights = restore.open_checkpoint(member)
        state.check_trained(weights, "--init_checkpoint")
        other = names.setdefault(os.path.realpath(weights.path), member)
        if other != member:
            raise errors.FlagError(
                f"--init_checkpoint names one model twice, as {other} and as {member}; give each "
                "once"
            )
