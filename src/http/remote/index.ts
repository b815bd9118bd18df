/** A box whose store is a server: the same verbs, over HTTP. */

export type {
  RemoteAckOptions,
  RemoteAdd,
  RemoteHandler,
  RemoteHandlerFunction,
  RemoteHandlerJob,
  RemoteHandlerSpec,
  RemoteJobs,
  RemoteNackOptions,
  RemoteWorkerOptions,
  WithoutTransaction,
} from './jobs.ts'
export type { RemoteMonitor } from './monitor.ts'
export type { RemoteOnce } from './once.ts'
export { openRemote, type RemoteBox, type RemoteOpenOptions, type RemoteUrl } from './remote-box.ts'
