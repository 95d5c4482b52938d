# SPDX-License-Identifier: Apache-2.0
"""What libraries of models change in a model: adapters of PEFT, compiled code, checkpointed layers, wrapped optimizers.

Each is accepted where gradients of single examples were compared with those that are taken one at a time, and refused by its name
where they were not. Nothing is imported for it: what a model holds is known by attributes and names of classes.
"""

from __future__ import annotations

from typing import Any, Dict

import torch

from .. import errors

#: Options of peft.LoraConfig that may have any value; each other one must have its default.
LORA = frozenset(
    "alpha_pattern auto_mapping base_model_name_or_path bias exclude_modules fan_in_fan_out inference_mode init_lora_weights "
    "layers_pattern layers_to_transform lora_alpha lora_bias lora_dropout modules_to_save peft_type peft_version r rank_pattern "
    "revision runtime_config target_modules task_type use_dora use_rslora".split()
)
#: First weights of adapters that depend on no data.
STARTS = (True, False, "gaussian", "orthogonal", "olora")
PRECISIONS = ("no", "bf16")
TIED = (
    "the adapter of %s is on a weight that the model also uses elsewhere (tied weights), and would change only one of the two uses: a merged or "
    "reloaded model is not the one that was trained. Leave it out of target_modules and modules_to_save, or make the model with "
    "tie_word_embeddings=False"
)
MERGED = "the adapter of %s is merged into the weight: its gradient is 0, and nothing would be trained. Call unmerge_adapter() first"
NOT_TRAINED = "the parameter %s has requires_grad, and the optimizer does not train it: give it all of them, or freeze it"
COMPILED = (
    "%s is compiled (torch.compile). Code that is compiled again for other sizes of batches can round differently, so that an example's "
    "gradient would depend on earlier batches. Give the model itself, without compile"
)
CHECKPOINTED = (
    "%s has gradient checkpointing, which gradients of single examples cannot pass. Call gradient_checkpointing_disable(); chunk= of "
    "make_private limits the memory in its place"
)


def plain_optimizer(optimizer: Any) -> Any:
    """The optimizer in the wrappers of Accelerate and Lightning, which has the hooks and the state."""
    names = [kind.__name__ for kind in type(optimizer).__mro__]
    if type(optimizer).__name__ == "AcceleratedOptimizer":
        precision = str(optimizer.accelerator_state.mixed_precision)
        if optimizer.scaler is not None or precision not in PRECISIONS:
            raise errors.UnsupportedError(
                "the optimizer is Accelerate's with mixed_precision = %r: a GradScaler skips a step whose gradients overflow, and one "
                "example can cause that. Accepted: no, bf16" % precision
            )
        return plain_optimizer(optimizer.optimizer)
    if "AcceleratedOptimizer" in names:
        raise errors.UnsupportedError("the optimizer is a %s: Accelerate's plain one is accepted" % type(optimizer).__name__)
    return plain_optimizer(optimizer._optimizer) if "LightningOptimizer" in names else optimizer


def check_changes(model: torch.nn.Module) -> None:
    """Before anything is computed: raises for what was not verified."""
    for name, module in model.named_modules():
        where = "%s (%s)" % (name or "the model", type(module).__name__)
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            raise errors.UnsupportedError(COMPILED % where)
        if module.training and getattr(module, "gradient_checkpointing", False) is True:
            raise errors.UnsupportedError(CHECKPOINTED % where)
        if getattr(module, "is_quantized", False) is True:
            raise errors.UnsupportedError("%s is quantized: a model of floating-point weights is accepted" % where)
        if getattr(module, "merged", False) is True and hasattr(module, "merged_adapters"):
            raise errors.StateError(MERGED % where)


def check_adapters(model: torch.nn.Module, trained: Dict[str, Any]) -> None:
    """Raises unless the adapters of a PEFT model, if it is one, are of a kind that was verified, and exactly they are trained."""
    found = [module for module in model.modules() if isinstance(getattr(module, "peft_config", None), dict)]
    if not found:
        return
    for config in [config for module in found for config in module.peft_config.values()]:
        check_config(config)
    places: Dict[int, set] = {}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            places.setdefault(id(p), set()).add(id(module))
    for name, module in model.named_modules():
        own = getattr(module, "base_layer", None) or getattr(module, "original_module", None)
        if isinstance(own, torch.nn.Module) and any(len(places[id(p)]) > 1 for p in own.parameters()):
            raise errors.UnsupportedError(TIED % name)
    check_all_trained(model, trained)


def check_config(config: Any) -> None:
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if kind not in ("LORA", "IA3"):
        raise errors.UnsupportedError("adapters of the kind %s of PEFT were not verified: LORA and IA3 are accepted" % kind)
    if kind == "IA3":
        return
    usual = vars(type(config)())
    for name, value in vars(config).items():
        if name not in LORA and value != usual.get(name):
            raise errors.UnsupportedError("LoraConfig: %s = %r was not verified; accepted: %r" % (name, value, usual.get(name)))
    start = config.init_lora_weights
    if start not in STARTS and not str(start).startswith("pissa"):
        raise errors.UnsupportedError(
            "LoraConfig: init_lora_weights = %r; first weights that follow from data would publish it. Accepted: %s, 'pissa'"
            % (start, ", ".join(map(repr, STARTS)))
        )


def check_all_trained(model: torch.nn.Module, trained: Dict[str, Any]) -> None:
    """Raises if a parameter that asks for gradients gets none, and no noise."""
    for name, p in model.named_parameters():
        if p.requires_grad and name not in trained:
            raise errors.ArgumentError(NOT_TRAINED % name)
