/** Signalbox keeps a fleet of workers from colliding. What every room shares is here; the rooms are subpaths. */
export {
  type ErrorCode,
  isSignalboxError,
  SignalboxError,
  type SignalboxErrorOptions,
} from './core/errors.ts'
