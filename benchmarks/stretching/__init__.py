"""What a stretched BERT loses, and how fast training brings it back."""
