
class Buffer {
  public:
    Buffer(const char *name, int64_t bytes, int type, bool is_input) : name(name), memory(size_t(bytes)) {
        if (!is_input) return;
        std::vector<unsigned char> made = contents(size_t(bytes), type);
        std::memcpy(memory.data(), made.data(), made.size());
    }
    void *data() { return memory.data(); }
    void show() const { show_bytes(name, bytes()); }
    void keep(const std::string &folder) const { keep_bytes(folder + "/" + name + ".bin", bytes()); }

  private:
    std::vector<unsigned char> bytes() const { return std::vector<unsigned char>(memory.begin(), memory.end()); }

    std::string name;
    kiln_export::Aligned<unsigned char> memory;
};
