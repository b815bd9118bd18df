/** The HTTP server: Signalbox for every language, and the place operators look. */
export type { AdmissionOptions } from './admission.ts'
export type { Served, ServedStores } from './call.ts'
export { createHandler, type FetchHandler } from './fetch.ts'
export { createLog, type Log, type LogOptions } from './log.ts'
export type { NodeListener } from './nodehttp.ts'
export type { HandlerOptions, RoomSettings, ServedBox, ServerOptions, ServiceOptions } from './options.ts'
export { type CloseOptions, createServer, type Server } from './server.ts'
export { checkTls, type TlsCheck, type TlsOptions } from './tls.ts'
