/**
 * The types of routes name those of the modules, which run in Node: where a browser's type of the same name is narrower,
 * it is widened here. The dashboard itself uses none of it.
 */
interface Performance extends Pick<import('node:perf_hooks').Performance, 'eventLoopUtilization'> {}
