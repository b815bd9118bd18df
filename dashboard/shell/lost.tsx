import { type ReactNode, useEffect, useRef } from 'react'
import { Button } from '../kit/button.tsx'
import { Icon } from '../kit/icon.tsx'
import { toast } from '../kit/toast.tsx'
import { useLiveness } from '../live/connection.ts'
import { queryClient } from '../live/queries.ts'
import { kitWords } from '../words/kit.ts'
import { useFormat, useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'

/** Reports a lost server in one place: what failed, since when, and the code; then that it is back. */
export function LostBanner(): ReactNode {
  const say = useWords(shellWords)
  const sayKit = useWords(kitWords)
  const format = useFormat()
  const { lostAt, loss, paused } = useLiveness()
  const wasLost = useRef(false)
  useEffect(() => {
    if (wasLost.current && lostAt === null) toast(say('back'))
    wasLost.current = lostAt !== null
  }, [lostAt, say])
  if (lostAt === null) return null
  return (
    <div className="banner" role="alert">
      <Icon name="warning" />
      <span>
        {say(loss, { time: format.clock(lostAt) })} {say(paused ? 'lostPaused' : 'lostRetrying')}{' '}
        <code>{sayKit('problemCode', { code: loss })}</code>
      </span>
      <Button onPress={() => void queryClient.refetchQueries({ type: 'active' })}>{say('retryNow')}</Button>
    </div>
  )
}
