"""Are long texts classified better by full context than by chunks, first tokens or word counts?"""
