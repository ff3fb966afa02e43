#!/bin/sh
# SQuAD 1.1 of the BERT paper (table 2, section 4.2), from a released model.
#
#   BERT_DIR=uncased_L-12_H-768_A-12 SQUAD_DIR=squad sh recipes/squad1.sh [output folder]
#
# Expected on the dev set:
#
#                                             EM      F1
#   BASE, batch 12, 3e-5, 2 epochs (here)     81.2    88.4     the released example
#   BASE, batch 32, 5e-5, 3 epochs (paper)    80.8    88.5
#   LARGE, batch 24, 3e-5, 2 epochs           84.4    90.9     from 90.5 to 91.0 over seeds
#   LARGE, ensemble of 7                      85.8    91.8
#   LARGE, first TriviaQA                     84.2    91.1     ensemble of 7: 86.2, 92.2
#
# More flags come from RUN_SQUAD_FLAGS: for LARGE "--train_batch_size=24".
#
# First TriviaQA: with TRIVIAQA_DIR, the folder with qa/ and evidence/ of its release, the model is
# fine-tuned for one epoch on the first 400 tokens of its Wikipedia documents before all else.
#
# An ensemble: run this several times with another output folder and RUN_SQUAD_FLAGS=--random_seed=N,
# from pre-trained models of different seeds if you have them, then predict with all of them:
#
#   python run_squad.py --do_predict --do_eval --predict_file=squad/dev-v1.1.json \
#     --init_checkpoint=run1/squad,run2/squad,run3/squad --output_dir=ensemble --vocab_file=... \
#     --bert_config_file=...
#
# Expected time: the paper gives about 30 minutes on one Cloud TPU for F1 91.0, a few hours on a
# GPU. Steps, BASE: 14,599 of 12 questions. Stopped, or killed, the same command goes on.
set -eu
: "${BERT_DIR:?the folder of a released model: vocab.txt, bert_config.json, bert_model.ckpt.*}"
: "${SQUAD_DIR:?the folder with train-v1.1.json and dev-v1.1.json}"
OUT=${1:-/tmp/squad1_output}
CODE=$(dirname "$0")/..
INIT=$BERT_DIR/bert_model.ckpt

squad() {
  # shellcheck disable=SC2086 - several flags
  python "$CODE/run_squad.py" \
    --vocab_file="$BERT_DIR/vocab.txt" --bert_config_file="$BERT_DIR/bert_config.json" \
    --init_checkpoint="$INIT" --train_batch_size=12 --learning_rate=3e-5 --max_seq_length=384 \
    --doc_stride=128 ${RUN_SQUAD_FLAGS:-} "$@"
}

if [ -n "${TRIVIAQA_DIR:-}" ]; then
  mkdir -p "$OUT"
  [ -f "$OUT/triviaqa.json" ] || python "$CODE/convert_to_squad.py" --input_format=triviaqa \
    --input_file="$TRIVIAQA_DIR/qa/wikipedia-train.json" \
    --evidence_dir="$TRIVIAQA_DIR/evidence/wikipedia" --output_file="$OUT/triviaqa.json"
  squad --do_train=True --train_file="$OUT/triviaqa.json" --num_train_epochs=1.0 \
    --output_dir="$OUT/triviaqa" --save_weights_only
  INIT=$OUT/triviaqa/weights
fi

squad --do_train=True --train_file="$SQUAD_DIR/train-v1.1.json" --num_train_epochs=2.0 \
  --do_predict=True --do_eval=True --predict_file="$SQUAD_DIR/dev-v1.1.json" --output_dir="$OUT/squad"
