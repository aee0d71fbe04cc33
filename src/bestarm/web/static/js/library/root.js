// Where the service is found: behind a proxy, it may have only a part of a host.

/** The path before all addresses of the service, such as "/bestarm"; empty if the host is its own. */
export const root = document.documentElement.dataset.root ?? "";

/** An address of the service, as links and requests need it. */
export const at = (path) => root + path;
