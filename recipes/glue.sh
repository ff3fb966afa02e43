#!/bin/sh
# The GLUE numbers of the BERT paper (table 1, section 4.1), from the released BERT-BASE, uncased.
#
#   BERT_BASE_DIR=uncased_L-12_H-768_A-12 GLUE_DIR=glue_data sh recipes/glue.sh [output folder]
#
# Batches of 32, 3 epochs, the best of four learning rates on the dev set; more flags for run_glue.py
# come from RUN_GLUE_FLAGS. For BERT-LARGE, whose runs on small sets sometimes stay at chance, the
# paper takes several seeds: RUN_GLUE_FLAGS="--seeds=1,2,3,4,5 --tasks=cola,mrpc,sts-b,rte".
#
# Expected on the test sets, from https://gluebenchmark.com for submission.zip:
#
#            CoLA  SST-2  MRPC F1/acc  STS-B P/S  QQP F1/acc  MNLI m/mm  QNLI  RTE   WNLI  score
#   BASE     52.1  93.5   88.9/84.8    87.1/85.8  71.2/89.2   84.6/83.4  90.5  66.4  65.1  78.3
#   LARGE    60.5  94.9   89.3/85.4    87.6/86.5  72.1/89.3   86.7/85.9  92.7  70.1  65.1  80.5
#
# and on the dev sets, BASE, as later papers give it (one metric a task, QQP accuracy):
#
#            56.3  92.7   88.6         89.0       89.6        84.7       91.8  69.3  53.5
#
# QNLI has been cut anew since the paper, so its row compares with care. WNLI is not trained, as in
# the paper: all its rows get the majority class.
#
# Expected time: the paper gives at most an hour on one Cloud TPU, a few hours on a GPU, for each of
# its results from the released weights. Steps of one run: MNLI 36,815, QQP 34,110, QNLI 9,819, SST-2 6,313, CoLA 801,
# STS-B 538, MRPC 343, RTE 233. Stopped, or killed, the same command goes on where it was.
set -eu
: "${BERT_BASE_DIR:?the folder of a released model: vocab.txt, bert_config.json, bert_model.ckpt.*}"
: "${GLUE_DIR:?the folder of a GLUE download, with CoLA, MRPC and so on in it}"
OUT=${1:-/tmp/glue_output}

# shellcheck disable=SC2086 - several flags
python "$(dirname "$0")/../run_glue.py" --data_dir="$GLUE_DIR" \
  --vocab_file="$BERT_BASE_DIR/vocab.txt" --bert_config_file="$BERT_BASE_DIR/bert_config.json" \
  --init_checkpoint="$BERT_BASE_DIR/bert_model.ckpt" --output_dir="$OUT" \
  --learning_rates=5e-5,4e-5,3e-5,2e-5 --train_batch_size=32 --num_train_epochs=3.0 \
  --max_seq_length=128 ${RUN_GLUE_FLAGS:-}
