import { type Box, open, type RemoteUrl } from '../index.ts'
import type { Stage } from './actor.ts'
import { playCrawlers } from './crawlers.ts'
import { playOffice } from './office.ts'
import { playPullers, playTranslators } from './translators.ts'

/** A small fleet that uses every module of a server: for a first look, and for tests of the whole. */

/** The options of the demo. */
export interface DemoOptions {
  /** The box of the modules. Its monitor must be allowed to reach this machine. */
  readonly box: Box
  /** A server of that box, for the nodes to connect to. */
  readonly url: string
  /** Called with each unexpected error. Must not throw. */
  readonly onFault?: ((who: string, error: unknown) => void) | undefined
}

export interface Demo extends AsyncDisposable {
  /** The number of unexpected errors. */
  readonly faultCount: number
  stop(): Promise<void>
}

/** Starts the demo. It runs until it is stopped. */
export function startDemo({ box, url, onFault }: DemoOptions): Demo {
  const controller = new AbortController()
  let faultCount = 0
  const stage: Stage = {
    signal: controller.signal,
    fault(who, error) {
      faultCount++
      onFault?.(who, error)
    },
  }
  const part = (who: string, play: Promise<void>) =>
    play.catch((error: unknown) => {
      if (!controller.signal.aborted) stage.fault(who, error)
    })
  const parts = [
    part('office', playRemoteOffice(url, stage)),
    part('pullers', playPullers(box, stage)),
    part('crawlers', playCrawlers(box, stage)),
    part('translators', playTranslators(box, url, stage)),
  ]
  const stop = async () => {
    controller.abort()
    await Promise.all(parts)
  }
  return {
    get faultCount() {
      return faultCount
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function playRemoteOffice(url: string, stage: Stage): Promise<void> {
  await using remote = await open(url as RemoteUrl)
  await playOffice(remote, stage)
}
