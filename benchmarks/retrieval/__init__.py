"""Is a passage found by what its document states far away, and by its position in the document?"""
