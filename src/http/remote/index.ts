/** A box on a server: the same methods, over HTTP. */

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
export { openRemote, type RemoteBox, type RemoteOpenOptions, type RemoteUrl } from './remote-box.ts'
export type { RemoteMonitor, RemoteOnce } from './remote-modules.ts'
