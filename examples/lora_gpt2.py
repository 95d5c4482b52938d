# SPDX-License-Identifier: Apache-2.0
"""Private LoRA adapters of a GPT-2 by Hugging Face's Trainer: python examples/lora_gpt2.py [--small]

The model has GPT-2's size (124 million parameters) and random weights, so nothing is downloaded; --small makes it a tiny one. The data
are made-up sentences. Give your own model and tokens in their place. It needs: pip install dpmf torch transformers peft accelerate
"""

import sys
import tempfile

import peft
import torch
import transformers

import dpmf
import dpmf.torch
import dpmf.transformers

SMALL = "--small" in sys.argv
SIZES = dict(vocab_size=500, n_embd=32, n_layer=2, n_head=2) if SMALL else {}
EXAMPLES, LENGTH, STEPS, EPOCHS = 80, 16, 20, 2

torch.manual_seed(1)
config = transformers.GPT2Config(n_positions=64, bos_token_id=0, eos_token_id=0, attn_implementation="eager", **SIZES)
model = peft.get_peft_model(
    transformers.GPT2LMHeadModel(config),
    peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True),
)

# All examples have one length. A tokenizer's padding="max_length" does that for texts.
tokens = (torch.randint(0, 400, (EXAMPLES, 1)) + 7 * torch.arange(LENGTH)) % 400
data = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row} for row in tokens]

# Adam adds up its updates as SGD with momentum does.
mechanism = dpmf.design(steps=STEPS, epochs=EPOCHS, epsilon=8, delta=1e-5, workload="momentum:0.9")
key = dpmf.create_key()  # a path keeps it, so that the run can be resumed
sampler = dpmf.torch.BatchSampler.for_mechanism(mechanism, data, key)

trainer = dpmf.transformers.PrivateTrainer(
    model,
    transformers.TrainingArguments(
        tempfile.mkdtemp(), max_grad_norm=0.0, learning_rate=1e-3, report_to="none", save_strategy="no", use_cpu=True
    ),
    train_dataset=data,
    private=dict(mechanism=mechanism, clip_norm=1.0, sampler=sampler, key=key),
)
trainer.train()

trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
whole = sum(p.numel() for p in model.parameters())
print("%d steps of %g examples, %d of %d parameters trained" % (STEPS, sampler.expected_batch, trained, whole))
print("epsilon = %.4g at delta = %g" % (trainer.private.epsilon, mechanism.delta))
print(trainer.private.statement())
