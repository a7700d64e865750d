"""A whole job from start to end: load, embed, search, generate, fine-tune, pretrain."""
