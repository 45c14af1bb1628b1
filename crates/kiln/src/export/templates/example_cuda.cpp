// Runs the kernel on the first shape it was tuned for. Build and run: sh build.sh && ./example [FOLDER FOR BUFFERS]
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>

#include "@NAME@.hpp"

#include "example_buffer.hpp"

int main(int count, char **words) {
    try {
        const @NAME@::Known &first = @NAME@::known()[0];
        const @NAME@::Dimensions d = first.dimensions;
        using namespace kiln_export;
        @NAME@::Kernel kernel(".");
        kernel.gpu().enter();
@BUFFERS@
@SCRATCH@
        @NAME@::Choice choice = kernel.launch(d, nullptr, @PASSED@);
        Driver::get().check(Driver::get().ctxSynchronize(), "the kernel");
        std::printf("shape %s: config c%d, %s\n", first.shape, choice.config, choice.exact ? "tuned for it" : "of the nearest shape");
        @SHOW@
        if (count > 1) {
            std::string folder = words[1];
            @KEEP@
        }
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
