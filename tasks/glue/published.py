"""Published GLUE scores of the released models."""

# Scores of the released models on the test sets: the rows of the GLUE leaderboard, of which table 1
# of the paper shows one metric a task.
PAPER_TEST: dict[str, dict[str, dict[str, float]]] = {
    "BERT-BASE": {
        "cola": {"matthews": 52.1},
        "sst-2": {"accuracy": 93.5},
        "mrpc": {"f1": 88.9, "accuracy": 84.8},
        "sts-b": {"spearman": 85.8, "pearson": 87.1},
        "qqp": {"f1": 71.2, "accuracy": 89.2},
        "mnli": {"accuracy": 84.6, "mm_accuracy": 83.4},
        "qnli": {"accuracy": 90.5},
        "rte": {"accuracy": 66.4},
        "wnli": {"accuracy": 65.1},
    },
    "BERT-LARGE": {
        "cola": {"matthews": 60.5},
        "sst-2": {"accuracy": 94.9},
        "mrpc": {"f1": 89.3, "accuracy": 85.4},
        "sts-b": {"spearman": 86.5, "pearson": 87.6},
        "qqp": {"f1": 72.1, "accuracy": 89.3},
        "mnli": {"accuracy": 86.7, "mm_accuracy": 85.9},
        "qnli": {"accuracy": 92.7},
        "rte": {"accuracy": 70.1},
        "wnli": {"accuracy": 65.1},
    },
}

PAPER_SCORE = {"BERT-BASE": 78.3, "BERT-LARGE": 80.5}


# Scores on the dev sets, which the paper does not give for all tasks: BASE from the DistilBERT
# paper (medians of five runs), LARGE from those of XLNet, RoBERTa and ALBERT. One metric a task;
# accuracy for QQP, and for MRPC and STS-B the papers do not say which.
LATER_DEV: dict[str, dict[str, float]] = {
    "BERT-BASE": {
        "cola": 56.3, "sst-2": 92.7, "mrpc": 88.6, "sts-b": 89.0, "qqp": 89.6, "mnli": 84.7,
        "qnli": 91.8, "rte": 69.3, "wnli": 53.5,
    },
    "BERT-LARGE": {
        "cola": 60.6, "sst-2": 93.2, "mrpc": 88.0, "sts-b": 90.0, "qqp": 91.3, "mnli": 86.6,
        "qnli": 92.3, "rte": 70.4,
    },
}  # fmt: skip
