
class Buffer {
  public:
    Buffer(const char *name, int64_t bytes, int type, bool is_input) : name(name), bytes(size_t(bytes)) {
        if (is_input) this->bytes = contents(size_t(bytes), type);
    }
    void *data() { return bytes.data(); }
    void show() const { show_bytes(name, bytes); }
    void keep(const std::string &folder) const { keep_bytes(folder + "/" + name + ".bin", bytes); }

  private:
    std::string name;
    std::vector<unsigned char> bytes;
};
