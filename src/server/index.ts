/** The HTTP server: Signalbox for every language, and the place operators look. */
export type { ServerOptions } from './options.ts'
export { type CloseOptions, createServer, type Server } from './server.ts'
