"""Search by words: BM25 over the passages whose vectors are searched."""
