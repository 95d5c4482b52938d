# SPDX-License-Identifier: Apache-2.0
"""predict: the answers of a trained model equal those computed here from its weights, with and without --scale."""
import math
import struct
import unittest

from harness import Case, npy, run
from test_train import table


def read_npy(path):
    with open(path, "rb") as file:
        content = file.read()
    start = 10 + struct.unpack("<H", content[8:10])[0]
    return list(struct.unpack("<%dd" % ((len(content) - start) // 8), content[start:]))


def answers(weights, hidden, classes, rows):
    """The class of each row and its probability, in plain Python; the layout is the documented one."""
    features, at, layers = len(rows[0]), 0, []
    for inputs, outputs in ((features, hidden), (hidden, classes)) if hidden else ((features, classes),):
        matrix = [weights[at + i * inputs:at + (i + 1) * inputs] for i in range(outputs)]
        at += inputs * outputs
        layers.append((matrix, weights[at:at + outputs]))
        at += outputs
    assert at == len(weights)
    found = []
    for x in rows:
        for depth, (matrix, bias) in enumerate(layers):
            x = [sum(w * v for w, v in zip(row, x)) + b for row, b in zip(matrix, bias)]
            if depth + 1 < len(layers):
                x = [math.tanh(v) for v in x]
        largest = max(x)
        found.append((x.index(largest), 1 / sum(math.exp(v - largest) for v in x)))
    return found


class Predict(Case):
    def setUp(self):
        super().setUp()
        self.train_csv, self.test_csv = self.write("train.csv", table(600, 1)), self.write("test.csv", table(200, 2))
        with open(self.test_csv) as file:
            lines = [line.split(",") for line in file.read().split("\n")[1:-1]]
        self.rows = [[float(x), float(y)] for x, y, _ in lines]
        self.labels = [int(label) for _, _, label in lines]

    def trained(self, *options):
        found = self.json("train", "--data", self.train_csv, "--test-data", self.test_csv, "--batch", 60, "--epochs", 5,
                          "--epsilon", 8, "--delta", 1e-5, "--sampling", "poisson", "-o", self.path("w.npy"), *options)
        return found["test_accuracy"], read_npy(self.path("w.npy"))

    def check(self, model, hidden, rows, *options):
        accuracy, weights = self.trained("--model", model, *options)
        found = self.json("predict", self.path("w.npy"), "--model", model, "--data", self.test_csv, *options)
        self.assertEqual((found["examples"], found["accuracy"]), (200, accuracy))
        for (label, probability), a, b in zip(answers(weights, hidden, 4, rows), found["class"], found["probability"]):
            self.assertAlmostEqual(probability, b, delta=1e-4)
            if probability > 0.501 or label == a:  # two classes of nearly the same probability may change places
                self.assertEqual(label, a)
        return found

    def test_answers_are_those_of_the_weights(self):
        self.check("softmax", 0, self.rows)
        self.check("mlp:7", 7, self.rows)

    def test_scaled_features(self):
        self.check("softmax", 0, [[x / math.hypot(x, y), y / math.hypot(x, y)] for x, y in self.rows], "--scale", "rows")
        scale = self.write("s.npy", npy([0.5, -0.25, 2.0, 4.0], (2, 2)))
        self.check("mlp:7", 7, [[2 * (x - 0.5), 4 * (y + 0.25)] for x, y in self.rows], "--scale", scale)

    def test_examples_without_classes_and_a_file(self):
        self.trained()
        bare = self.write("bare.csv", "x,y\n" + "".join("%r,%r\n" % tuple(row) for row in self.rows))
        found = self.json("predict", self.path("w.npy"), "--data", bare)
        self.assertIsNone(found["accuracy"])
        code, out, err = run("predict", self.path("w.npy"), "--data", self.test_csv, "-o", self.path("answers.csv"))
        self.assertEqual((code, out), (0, ""))
        self.assertIn("of 200 examples are correct", err)
        with open(self.path("answers.csv")) as file:
            lines = file.read().split("\n")
        self.assertEqual((lines[0], len(lines)), ("class,probability", 202))
        self.assertEqual([int(line.split(",")[0]) for line in lines[1:-1]], found["class"])

    def test_what_does_not_fit_is_refused(self):
        self.trained()
        weights = self.path("w.npy")
        self.refused(2, "predict", weights, says="predict needs --data")
        self.refused(2, "predict", says="predict needs a WEIGHTS")
        self.refused(1, "predict", weights, "--model", "mlp:3", "--data", self.test_csv, says="12 weights")
        self.refused(1, "predict", weights, "--data", self.test_csv, "--label", "kind", says="no column 'kind'")
        self.refused(1, "predict", weights, "--data", self.test_csv, "--scale",
                     self.write("s.npy", npy([1.0] * 6, (2, 3))), says=["--scale", "2 x 2"])
        self.refused(1, "predict", self.path("none.npy"), "--data", self.test_csv, says="none.npy")


if __name__ == "__main__":
    unittest.main()
