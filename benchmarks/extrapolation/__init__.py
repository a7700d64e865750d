"""Train short, test long: a benchmark of encodings on lengths that they were not trained on."""
