"""What a million vectors cost: `embed`, Ray Data and Spark, each with one worker on one core.

    python -m pip install "ray[data]" pyspark pandas psutil
    KERAS_BACKEND=torch OMP_NUM_THREADS=1 RAY_worker_niceness=0 python -m benchmarks.jobs.many_texts
    KERAS_BACKEND=torch python -m benchmarks.jobs.many_texts --table      # the results as a table

The texts are passages of 100 words of book excerpts, and the model is all-MiniLM-L6-v2.

The processor time of all processes is measured for 40 and for 200 texts. The difference is the cost
of 160 texts; what the 40 texts cost beyond that is the start. Results go to
benchmarks/results/many_texts.json and are not computed again.
"""

import csv
import os
import pathlib
import sys
import tempfile
import threading

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import Study, keys, markdown, options, write_lines
from keras_posenc import embed

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "many_texts.json"
FEW, MANY, WORDS = 40, 200, 100
INTERVAL = 0.25  # seconds


def main():
    parser = options(__doc__, RESULTS, "build/many_texts", seeds=(0,))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        study.run(keys(way=arguments.ways), cost, ["seconds_per_text", "start"])
    print(markdown(lines(study.rows)))


def cost(way):
    """Processor seconds per text, and those of a start."""
    found = passages()
    with tempfile.TemporaryDirectory() as folder, ProcessorTime() as time, WAYS[way]() as run:
        run(found[:FEW], f"{folder}/first")  # opens the model, where it stays open
        used = [time.seconds()]
        for number, count in enumerate((FEW, MANY)):
            run(found[:count], f"{folder}/{number}")
            used.append(time.seconds())
    few, many = (used[i + 1] - used[i] for i in range(2))
    each = (many - few) / (MANY - FEW)
    return {"seconds_per_text": round(each, 4), "start": round(few - FEW * each, 1)}


def passages():
    """Passages of 100 words, one after another."""
    with open(f"{CORPORA}/book-excerpts.tab", encoding="utf-8") as file:
        words = [
            word for row in csv.DictReader(file, delimiter="\t") for word in row["Text"].split()
        ]
    return [" ".join(words[n * WORDS : (n + 1) * WORDS]) for n in range(MANY)]


class ProcessorTime:
    """Processor time of this process and of all that it starts, also of those that have ended.

    Ray's workers end with their job, and nobody waits for them, so their time is read while they
    run: up to `INTERVAL` seconds of each are lost.
    """

    def __init__(self):
        self.used, self.ended = {}, threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        self.thread.join()

    def seconds(self):
        self._read()
        return sum(self.used.values())

    def _watch(self):
        while not self.ended.wait(INTERVAL):
            self._read()

    def _read(self):
        import psutil

        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            try:
                times = process.cpu_times()
                self.used[process.pid, process.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                continue  # it ended just now


class Embed:
    def __enter__(self):
        return lambda texts, output: embed(MINILM, texts, f"{output}.npy", verbose=0)

    def __exit__(self, *error):
        pass


class Ray:
    def __enter__(self):
        import ray

        from keras_posenc.adapters import RayEmbedder

        # One for the model, one for reading and writing, without which nothing ends.
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        options = {"fn_constructor_args": [MINILM], "concurrency": 1}

        def run(texts, output):
            # In one block, as a file has them: `from_items` makes a block of each text.
            rows = ray.data.from_items([{"text": text} for text in texts], override_num_blocks=1)
            rows.map_batches(RayEmbedder, **options).write_parquet(output)

        return run

    def __exit__(self, *error):
        import ray

        ray.shutdown()


class Spark:
    def __enter__(self):
        from pyspark.sql import SparkSession

        from keras_posenc.adapters import spark_embedder

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        self.spark, vectors = builder.getOrCreate(), spark_embedder(MINILM)

        def run(texts, output):
            rows = self.spark.createDataFrame([(text,) for text in texts], "text string")
            rows.withColumn("vector", vectors("text")).write.parquet(output)

        return run

    def __exit__(self, *error):
        self.spark.stop()


WAYS = {"embed": Embed, "Ray Data": Ray, "Spark": Spark}


def lines(rows):
    """Hours of a core per million texts, and seconds of a start."""
    found = {row["way"]: row for row in rows}
    return [
        ["engine", "core hours per million texts", "core seconds per start"],
        *(
            [way, f"{row['seconds_per_text'] * 1e6 / 3600:.0f}", f"{max(0, row['start']):.0f}"]
            for way, row in ((way, found[way]) for way in WAYS if way in found)
        ),
    ]


if __name__ == "__main__":
    main()
