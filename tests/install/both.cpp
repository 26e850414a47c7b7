// both.cpp: consumer.c and consumer.cpp of two copies of weft in one binary, one copy with a prefix.
extern "C" int main_c();
extern "C" int own_main();
int main_cpp();
int own_main_cpp();

int main() { return main_c() + own_main() + main_cpp() + own_main_cpp(); }
