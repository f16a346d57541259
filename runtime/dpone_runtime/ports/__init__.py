"""What services need from outside, as protocols with few methods; adapters implement them."""
