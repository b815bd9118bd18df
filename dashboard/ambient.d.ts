/**
 * Route types refer to module types, which run in Node. Where the browser's type of the same name is narrower, it is
 * widened here. The dashboard itself does not use it.
 */
interface Performance extends Pick<import('node:perf_hooks').Performance, 'eventLoopUtilization'> {}
