import { catalogue } from './catalogue.ts'

export const contentionWords = catalogue({
  lead: {
    en: 'Who waits in this server, how long, and on whom. Read the holders first: the top one is what to change first, for it costs what the others waited. Then find the row of what hurts.',
    zh: '本服务器中谁在等待、等了多久、在等谁。先看占用者：排在首位的最值得优化，它的代价是其他人的等待时间；再找到变慢的那一行。',
  },
  since: {
    en: 'Measured since {time}, in the one process that answers.',
    zh: '自 {time} 起测量，仅限响应此请求的进程。',
  },
  sinceStart: { en: 'Measured', zh: '测量时长' },
  waitedInAll: { en: 'Waited in all', zh: '总等待' },
  worstHolder: { en: 'In the way most', zh: '最大占用者' },
  waitingNow: { en: 'In line now', zh: '当前排队' },

  quiet: { en: 'Nobody has waited yet', zh: '尚无等待' },
  quietNext: {
    en: 'Waits of more than a millisecond show here as soon as there are any. Nothing has to be switched on.',
    zh: '超过 1 毫秒的等待会自动显示在这里，无需任何配置。',
  },

  holders: { en: 'Holders', zh: '占用者排名' },
  holdersLead: { en: 'What others waited on, added up.', zh: '其他操作等待它的时间总和。' },
  shareOf: { en: '{holder}: {share} of all that was waited', zh: '{holder}：占总等待的 {share}' },
  gc: { en: 'the garbage collector stopped the thread', zh: '垃圾回收暂停了线程' },
  eventLoop: { en: 'the thread was busy with code nobody told of', zh: '线程忙于未登记的代码' },
  host: { en: 'the machine did not let us run', zh: '机器未调度本进程' },
  store: { en: 'the answer of the store', zh: '等待存储应答' },
  other: { en: 'nobody is known to have run', zh: '未知' },

  matrix: { en: 'Who waits on whom', zh: '等待矩阵' },
  matrixLead: {
    en: 'A row waits, a column is waited on; the darker, the longer. “timer” is the recorder’s own: it says who stops this thread.',
    zh: '行在等待，列被等待；颜色越深时间越长。timer 是测量器自身的定时器，反映谁阻塞了线程。',
  },
  waiter: { en: 'Waiter', zh: '等待者' },
  total: { en: 'In all', zh: '合计' },
  cell: {
    en: {
      one: '{waiter} waited {span} on {holder}, in {count} wait',
      other: '{waiter} waited {span} on {holder}, in {count} waits',
    },
    zh: '{waiter} 等待 {holder} 共 {span}，{count} 次',
  },
  scale: { en: 'from {low} to {high}', zh: '{low} 至 {high}' },

  kinds: { en: 'Kinds of command', zh: '命令类型' },
  kindsLead: {
    en: 'Wait is the time in line, hold the turn itself. A bar is dark to the median, lighter to 90 %, lightest to 99 %; its line is the longest. All bars share one scale, by powers of ten.',
    zh: '等待是排队时间，占用是执行时间。条形由深至浅依次到中位数、90%、99%，竖线为最大值；所有条形共用对数刻度。',
  },
  kind: { en: 'Kind', zh: '类型' },
  lane: { en: 'Lane', zh: '通道' },
  waits: { en: 'Waits', zh: '等待次数' },
  wait: { en: 'Wait: median · 99 %', zh: '等待：中位 · 99%' },
  holds: { en: 'Turns', zh: '执行次数' },
  hold: { en: 'Hold: median · 99 %', zh: '占用：中位 · 99%' },
  quantiles: {
    en: '{count} in all: median {p50}, 90 % {p90}, 99 % {p99}, longest {max}',
    zh: '共 {count} 次：中位 {p50}，90% {p90}，99% {p99}，最长 {max}',
  },
  medianAnd: { en: '{p50} · {p99}', zh: '{p50} · {p99}' },

  lanes: { en: 'Lanes', zh: '通道' },
  lanesLead: {
    en: 'Lines and pools: who has a turn, who waits now, and the most that ever waited.',
    zh: '队列与连接池：正在执行、当前等待、历史最多等待。',
  },
  turns: { en: 'Turns', zh: '占用' },
  waitingHere: { en: 'Waiting', zh: '等待' },
  peak: { en: 'Most ever', zh: '历史峰值' },
  noLanes: { en: 'No line or pool has been used yet.', zh: '尚未使用任何通道。' },

  slowest: { en: 'Slowest turns', zh: '最慢的操作' },
  slowestLead: { en: 'Of the last one to two hours.', zh: '最近一至两小时内。' },
  about: { en: 'About', zh: '对象' },
  waited: { en: 'Waited', zh: '等待' },
  held: { en: 'Held', zh: '占用' },
  ended: { en: 'Ended', zh: '结束' },
  both: { en: 'Waited, then held', zh: '先等待后占用' },
  slowBar: { en: 'waited {wait}, held {hold}', zh: '等待 {wait}，占用 {hold}' },
  noSlow: { en: 'None was slow.', zh: '没有慢操作。' },

  keys: { en: 'Locks that were waited for', zh: '被等待的锁' },
  keysLead: {
    en: 'Time counts for each who waits: ten who wait for a second are ten seconds.',
    zh: '按每个等待者累计：十个等待者各等一秒计为十秒。',
  },
  key: { en: 'Lock', zh: '锁' },
  line: { en: 'Who waits on whom', zh: '等待关系' },
  free: { en: 'free', zh: '空闲' },
  nobodyWaits: { en: 'nobody waits now', zh: '当前无等待' },
  more: { en: '+{count}', zh: '+{count}' },
  waitCount: { en: 'Waits over', zh: '已结束等待' },
  inAll: { en: 'Waited in all', zh: '累计等待' },
  longest: { en: 'Longest', zh: '最长' },
  heldBy: { en: 'In whose turns', zh: '等待谁' },
  unknown: { en: 'unknown', zh: '未知' },
  noKeys: { en: 'No lock was waited for', zh: '没有等待锁' },
  noKeysNext: {
    en: 'Locks show here once somebody stands in line for one.',
    zh: '有人排队等待锁时会显示在这里。',
  },
  allLocks: { en: 'All locks', zh: '全部锁' },

  showAll: { en: 'Show all {count}', zh: '显示全部 {count} 项' },
  showFewer: { en: 'Show fewer', zh: '收起' },
  overflow: {
    en: 'Some found no room and are counted under “other” or not at all: {kinds} kinds, {tickets} commands, {cells} cells, {keys} locks.',
    zh: '部分数据超出容量，计入 other 或未统计：类型 {kinds}，命令 {tickets}，单元格 {cells}，锁 {keys}。',
  },
})
