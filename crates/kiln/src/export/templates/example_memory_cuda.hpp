
class Buffer {
  public:
    Buffer(const char *name, int64_t bytes, int type, bool is_input) : name(name), bytes(size_t(bytes)) {
        kiln_export::Driver &driver = kiln_export::Driver::get();
        driver.check(driver.memAlloc(&address, this->bytes == 0 ? 1 : this->bytes), "memory");
        driver.check(driver.memsetD8(address, 0, this->bytes == 0 ? 1 : this->bytes), "memory");
        if (is_input) {
            std::vector<unsigned char> host = contents(this->bytes, type);
            driver.check(driver.memcpyHtoD(address, host.data(), host.size()), "a copy");
        }
    }
    ~Buffer() { kiln_export::Driver::get().memFree(address); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    void *data() const { return reinterpret_cast<void *>(address); }
    void show() const { show_bytes(name, host()); }
    void keep(const std::string &folder) const { keep_bytes(folder + "/" + name + ".bin", host()); }

  private:
    std::vector<unsigned char> host() const {
        std::vector<unsigned char> copy(bytes);
        kiln_export::Driver &driver = kiln_export::Driver::get();
        driver.check(driver.memcpyDtoH(copy.data(), address, bytes), "a copy");
        return copy;
    }

    std::string name;
    size_t bytes;
    kiln_export::DriverPointer address = 0;
};
