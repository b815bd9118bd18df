import type { ReactNode } from 'react'
import { Button } from '../kit/button.tsx'
import { Icon } from '../kit/icon.tsx'
import { useLive } from '../live/queries.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { useSignedIn } from './session.ts'

const lookMs = 60_000

/** Says that another version is served now than when this page was loaded: its scripts may not fit any more. */
export function OutdatedBanner(): ReactNode {
  const say = useWords(shellWords)
  const { client, me } = useSignedIn()
  const { version } = me.server
  const { data: now } = useLive(['me'], () => client.overview.me(), { everyMs: lookMs })
  if (now === undefined || now.server.version === version) return null
  return (
    <div className="banner" role="status">
      <Icon name="warning" />
      <span>{say('outdated', { from: version, to: now.server.version })}</span>
      <Button onPress={() => location.reload()}>{say('reload')}</Button>
    </div>
  )
}
