// Does not compile: the node of a graph returns neither void nor int (CMakeLists.txt).
#include <weft.hpp>

void refused(weft::graph &graph);
void refused(weft::graph &graph) {
    graph.add([] { return true; });
}
