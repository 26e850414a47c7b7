/* The declarations that adapters/hooks/webp.h takes from libwebp's source, for its test. */
#ifndef WEFT_WEBP_STUB_H
#define WEFT_WEBP_STUB_H

typedef enum { NOT_OK = 0, OK, WORK } WebPWorkerStatus;
typedef int (*WebPWorkerHook)(void *, void *);

typedef struct {
    void *impl_;
    WebPWorkerStatus status_;
    WebPWorkerHook hook;
    void *data1;
    void *data2;
    int had_error;
} WebPWorker;

typedef struct {
    void (*Init)(WebPWorker *const worker);
    int (*Reset)(WebPWorker *const worker);
    int (*Sync)(WebPWorker *const worker);
    void (*Launch)(WebPWorker *const worker);
    void (*Execute)(WebPWorker *const worker);
    void (*End)(WebPWorker *const worker);
} WebPWorkerInterface;

int WebPSetWorkerInterface(const WebPWorkerInterface *const winterface);

#endif
