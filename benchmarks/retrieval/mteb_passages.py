"""A task for `mteb.evaluate`: long documents that are found by one of their passages.

The documents and queries are those of long_documents.py, so no download is needed. MTEB
judges every model by the same scores. Beside those of a retrieval task, these are the fractions of
queries whose document is first, by the depth of the query's passage in it.
"""

import datasets
import numpy as np
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from benchmarks.retrieval import long_documents


class Passages(AbsTaskRetrieval):
    """The documents of a corpus, each with five queries.

    Args:
        collection: `long_documents.Collection`, or None for 10 licences of each class of length.
    """

    metadata = TaskMetadata(
        name="LicencePassages",
        description="Software licences of 1,200 to 6,000 words, found by 40 words at a known depth "
        "without the rarest third of them.",
        reference="https://github.com/aboutcode-org/scancode-toolkit",
        dataset={"path": "licensedcode-data", "revision": "32.1.0"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("1983-01-01", "2024-12-31"),
        domains=["Legal", "Written"],
        task_subtypes=[],
        license="cc-by-4.0",
        annotations_creators="derived",
        dialect=[],
        sample_creation="found",
        bibtex_citation="",
    )

    def __init__(self, collection=None, **kwargs):
        super().__init__(**kwargs)
        self.collection = collection

    def load_data(self, num_proc=None, **kwargs):
        """Forms the corpus, the queries and what is relevant to them."""
        if self.data_loaded:
            return
        found = self.collection or long_documents.CORPORA["licences"](10)
        names = found.names
        documents = [
            {"id": name, "text": text, "title": ""}
            for name, text in zip(names, found.texts, strict=True)
        ]
        queries = {
            f"{names[query.document]} at {100 * query.depth:02.0f}%": query
            for query in found.queries
        }
        self.dataset = {
            "default": {
                "test": {
                    "corpus": datasets.Dataset.from_list(documents),
                    "queries": datasets.Dataset.from_list(
                        [{"id": name, "text": query.text} for name, query in queries.items()]
                    ),
                    "relevant_docs": {
                        name: {names[query.document]: 1} for name, query in queries.items()
                    },
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True

    def task_specific_scores(self, scores, qrels, results, hf_split, hf_subset):
        """The fraction of queries whose document is first, by depth: `top1_depth_05` and others."""
        right = {}
        for query, scored in results.items():
            depth = query.rsplit(" at ", 1)[1].rstrip("%")
            first = max(scored, key=scored.get) in qrels[query]
            right.setdefault(f"top1_depth_{depth}", []).append(first)
        return {name: float(np.mean(values)) for name, values in sorted(right.items())}
