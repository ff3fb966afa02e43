"""convert_to_squad.py from the command line to a file that run_squad reads."""

import gzip
import json

import convert_to_squad
import scripts
from tasks.squad import examples as squad_examples

_main = scripts.Command(convert_to_squad)


def _questions(path, policy="error"):
    examples = squad_examples.read(str(path), is_training=True, answer_policy=policy)
    return [
        (q.qas_id, q.text, examples.contexts[q.paragraph][q.start : q.end])
        for q in examples.questions
    ]


def test_triviaqa(tmp_path, capsys):
    (tmp_path / "wikipedia").mkdir()
    text = "Rome is the capital of Italy. ROMA is another name."
    (tmp_path / "wikipedia/Rome.txt").write_text(text)
    (tmp_path / "wikipedia/Late.txt").write_text("x " * 30 + "Rome")
    item = {
        "QuestionId": "t1",
        "Question": "Capital of Italy?",
        "Answer": {"Value": "Roma", "Aliases": ["Rome", "Roma"]},
        "EntityPages": [{"Filename": f"{name}.txt"} for name in ("Rome", "Late", "Missing")],
    }
    source = tmp_path / "train.json"
    source.write_text(json.dumps({"Data": [item]}))
    flags = ["--input_format=triviaqa", f"--input_file={source}", "--max_tokens=20"]
    evidence = f"--evidence_dir={tmp_path / 'wikipedia'}"
    output = tmp_path / "new/squad.json"
    assert _main(*flags, evidence, f"--output_file={output}") == 0
    assert _questions(output) == [("t1--Rome.txt", "Capital of Italy?", "Rome")]
    assert _main(*flags, evidence, f"--output_file={output}", "--max_tokens=31") == 0
    assert len(_questions(output)) == 2
    capsys.readouterr()
    for more, status, message in (
        ([f"--output_file={output}"], 2, "--evidence_dir is missing; --input_format=triviaqa"),
        ([evidence, f"--output_file={source}"], 2, "is also read; give another name"),
        ([f"--evidence_dir={tmp_path}", f"--output_file={output}"], 1, "none of its 3 documents"),
        ([evidence, f"--output_file={tmp_path}/wikipedia/Rome.txt"], 2, "Rome.txt is also read"),
        ([f"--evidence_dir={tmp_path}/no", f"--output_file={output}"], 1, "/no is not a directory"),
    ):
        assert _main(*flags, *more) == status
        assert message in capsys.readouterr().err
    assert len(_questions(output)) == 2  # what stood there stays


def test_mrqa(tmp_path, capsys):
    rows = [
        {"header": {"dataset": "x"}},
        {
            "context": "a b c b",
            "qas": [
                {
                    "qid": "m1",
                    "question": "which?",
                    "detected_answers": [
                        {"text": "b", "char_spans": [[2, 2], [6, 6]]},
                        {"text": "b c", "char_spans": [[2, 4]]},
                    ],
                },
                {"qid": "m2", "question": "who?", "detected_answers": []},
            ],
        },
    ]
    source = tmp_path / "x.jsonl.gz"
    with gzip.open(source, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    output = tmp_path / "squad.json"
    flags = ["--input_format=mrqa", f"--input_file={source}", f"--output_file={output}"]
    assert _main(*flags) == 0
    assert _questions(output, "first") == [("m1", "which?", "b")]
    assert [text for _, _, text in _questions(output, "all")] == ["b", "b c"]
    capsys.readouterr()
    for more, status, message in (
        (["--evidence_dir=x"], 2, "--evidence_dir=x does nothing with --input_format=mrqa"),
        (["--max_tokens=300"], 2, "--max_tokens=300 does nothing with --input_format=mrqa"),
        (["--input_format=csv"], 2, "--input_format=csv: expected one of triviaqa, mrqa"),
        ([f"--input_file={tmp_path}/no"], 1, "--input_file: no file matches"),
        ([f"--input_file={source},{output}"], 2, "--input_file names 2 files; give one"),
    ):
        assert _main(*flags, *more) == status
        assert message in capsys.readouterr().err

    empty, output = tmp_path / "empty.jsonl", tmp_path / "none.json"
    empty.write_text('{"header": {}}\n')
    assert _main("--input_format=mrqa", f"--input_file={empty}", f"--output_file={output}") == 1
    assert f"error: {empty}: there is no question in it" in capsys.readouterr().err
    assert not output.exists()
