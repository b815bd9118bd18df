/** The HTTP server: Signalbox for every language, and the dashboard for operators. */

export type { Served, ServedStores } from './call.ts'
export { createHandler, type FetchHandler } from './fetch-handler.ts'
export { createLog, type Log, type LogOptions } from './log/log.ts'
export type { NodeListener } from './node-http.ts'
export type { AdmissionOptions } from './request/admission.ts'
export { type CloseOptions, createServer, type Server } from './server.ts'
export type {
  HandlerOptions,
  ModuleSettings,
  ServedBox,
  ServerOptions,
  ServiceOptions,
} from './server-options.ts'
export { checkTls, type TlsCheck, type TlsOptions } from './tls.ts'
